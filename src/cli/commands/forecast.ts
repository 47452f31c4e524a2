import { type Command, Option } from 'commander'
import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { quote } from '../../base/options.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import type { BacklogSpec, Forecast, Waits } from '../../policy/forecast/what-if.ts'
import { type Column, tableOf } from '../table.ts'
import { addViewOptions, show, showOnce, type View, type ViewFlags, wholeOf } from '../view.ts'
import { groupDigits } from '../../policy/limits/policy-words.ts'
import { inWords } from '../words.ts'

interface ForecastFlags extends ViewFlags {
  readonly count?: string
  readonly keys?: string
  readonly weight?: string
  readonly key?: string
  readonly shared?: string
  readonly runTime?: string
  readonly policy?: string
  readonly rate?: string
  readonly per?: string
  readonly burst?: string
  readonly startEmpty?: true
  readonly window?: string
  readonly max?: string
  readonly timezone?: string
  readonly every?: string
  readonly concurrency?: string
  readonly guard?: string
}

const DETAILS = `
With the name of a limit: what waits for it now in the store, before its budgets as they are. With a policy beside it: what
if the limit were that. With --count: what if that were the backlog. Without a name: --count and a policy, and no store.

  sluice forecast crm                                      when is today's backlog done with?
  sluice forecast crm --window sliding --max 30 --per 1m   … and on the partner's higher plan?
  sluice forecast --count 10000 --keys 40 --policy "60/m burst 5" --shared 1000/m
  sluice forecast --keys acme=5000,birch=20 --every 100ms --json

With a second limit (--shared) the times are the later of both, a lower bound. A limit with concurrency needs --run-time.

Exit code: 0; 1 when there is no such store or limit; 2 for a wrong option or policy.`

/** Adds `sluice forecast`. */
export function registerForecast(program: Command): void {
  const command = program
    .command('forecast')
    .description('when a backlog will be done with, how long its jobs wait, and what twice the rate would change')
    .argument('[limit]', 'a limit of the store')
    .option('--count <jobs>', 'a backlog of so many jobs')
    .option('--keys <keys>', 'spread over so many keys, or the jobs of each: acme=500,birch=20')
    .option('--weight <units>', 'units that each job costs (default: 1)')
    .addOption(new Option('--key <key>', 'of the store, what waits for this key alone').conflicts(['count', 'keys']))
    .option('--shared <limit>', 'a second limit for all keys together: its name in the store, or a policy as 1000/m')
    .option('--run-time <duration>', 'how long each job runs, for a limit with concurrency')
    .option('--policy <text>', 'the policy as text, such as "100/m burst 5", in place of the options below')
    .option('--rate <units>', 'policy: a token bucket, with --per')
    .option('--per <duration>', 'policy: the period of --rate or --window')
    .option('--burst <units>', 'policy: units that may start back to back (default: the rate)')
    .option('--start-empty', 'policy: a new bucket begins with one token')
    .option('--window <kind>', 'policy: sliding or fixed, with --max and --per')
    .option('--max <units>', 'policy: units in a window')
    .option('--timezone <zone>', 'policy: fixed windows by this calendar')
    .option('--every <duration>', 'policy: never two starts closer than this')
    .option('--concurrency <jobs>', 'policy: so many at once')
    .option('--guard <duration>', 'policy: by how much the way to the other side may vary')
  addViewOptions(command).addHelpText('after', DETAILS).action(forecast)
}

function forecast(limit: string | undefined, flags: ForecastFlags): Promise<void> {
  return limit === undefined ? ofPolicy(flags) : ofStore(limit, flags)
}

async function ofPolicy(flags: ForecastFlags): Promise<void> {
  const [{ forecast }, { systemClock }] = await Promise.all([
    import('../../policy/forecast/what-if.ts'),
    import('../../base/clock.ts'),
  ])
  await showOnce(flags, () => {
    const policy = policyOf(flags)
    const backlog = backlogOf(flags)
    if (policy === undefined || backlog === undefined)
      throw new SluiceError(
        'cli.usage',
        'Name a limit of the store (sluice forecast crm), or give a backlog and a policy: --count 1000 --rate 60 --per 1m',
      )
    const shared = flags.shared !== undefined && isPolicyText(flags.shared) ? flags.shared : undefined
    if (flags.shared !== undefined && shared === undefined)
      throw new SluiceError(
        'cli.usage',
        `--shared is invalid: ${JSON.stringify(flags.shared)}. Expected a policy such as 1000/m, since there is no store.`,
      )
    const { runTime } = flags
    return viewOf(
      forecast(policy, {
        backlog,
        at: new Date(systemClock.now()),
        ...(shared === undefined ? {} : { shared }),
        ...(runTime === undefined ? {} : { runTime: runTime as Duration }),
      }),
    )
  })
}

async function ofStore(limit: string, flags: ForecastFlags): Promise<void> {
  const { forecastLimit } = await import('../../engine/api/forecast.ts')
  await show(flags, async (store) => {
    const policy = policyOf(flags)
    const backlog = backlogOf(flags)
    const { key, runTime, shared } = flags
    if (shared !== undefined && isPolicyText(shared))
      throw new SluiceError(
        'cli.usage',
        '--shared is invalid: a policy. Expected the name of a limit, since the forecast is of a limit in the store.',
      )
    return viewOf(
      await forecastLimit(store, limit, {
        ...(key === undefined ? {} : { key }),
        ...(policy === undefined ? {} : { policy }),
        ...(backlog === undefined ? {} : { backlog }),
        ...(shared === undefined ? {} : { shared }),
        ...(runTime === undefined ? {} : { runTime: runTime as Duration }),
      }),
    )
  })
}

const COLUMNS: readonly Column[] = [
  { head: '' },
  { head: 'as it is', right: true },
  { head: 'at twice the rate', right: true },
]

function viewOf(found: Forecast): View {
  const { jobs, keys, doubled, exact, caveats } = found
  const row = (name: string, of: (waits: Waits) => number | null): string[] => {
    const cell = (waits: Waits): string => {
      const ms = of(waits)
      return ms === null ? 'unknown' : inWords(ms)
    }
    return [name, cell(found), cell(doubled)]
  }
  return {
    data: found,
    lines: (paint) => [
      `${paint('bold', `${groupDigits(jobs)} ${jobs === 1 ? 'job' : 'jobs'}`)} of ${groupDigits(keys)} ${keys === 1 ? 'key' : 'keys'}`,
      ...tableOf(
        COLUMNS,
        [
          row('the last starts after', (waits) => waits.drainMs),
          row('half wait at most', (waits) => waits.p50Ms),
          row('99 of 100 wait at most', (waits) => waits.p99Ms),
        ],
        paint,
      ),
      ...(exact ? [] : caveats.map((caveat) => paint('yellow', `not exact: ${caveat}`))),
    ],
  }
}

/** The policy in the options, unchecked; undefined: none given. */
function policyOf(flags: ForecastFlags): Policy | undefined {
  const fields: Record<string, unknown> = flags.policy === undefined ? {} : { policy: flags.policy }
  for (const name of ['rate', 'burst', 'max', 'concurrency'] as const) {
    const text = flags[name]
    if (text !== undefined) fields[name] = wholeOf(text, `--${name}`)
  }
  for (const name of ['per', 'window', 'timezone', 'every', 'guard', 'startEmpty'] as const)
    if (flags[name] !== undefined) fields[name] = flags[name]
  // The policy's own check reports errors.
  return Object.keys(fields).length === 0 ? undefined : (fields as unknown as Policy)
}

function backlogOf({ count, keys, weight }: ForecastFlags): BacklogSpec | undefined {
  const units = weight === undefined ? {} : { weight: wholeOf(weight, '--weight') }
  if (keys?.includes('=')) {
    if (count !== undefined) throw new SluiceError('cli.usage', '--count and --keys exclude each other. Omit --count.')
    const jobs = keys.split(',').map(jobsOfKey)
    const twice = jobs.find(([key], i) => jobs.some(([other], at) => at < i && other === key))
    if (twice) throw new SluiceError('cli.usage', `--keys names ${quote(twice[0])} twice. Expected it once.`)
    return { keys: Object.fromEntries(jobs), ...units }
  }
  if (count !== undefined)
    return {
      count: wholeOf(count, '--count'),
      ...units,
      ...(keys === undefined ? {} : { keys: wholeOf(keys, '--keys') }),
    }
  if (keys === undefined && weight === undefined) return undefined
  throw new SluiceError('cli.usage', '--keys and --weight need a backlog. Add --count.')
}

function jobsOfKey(text: string): [string, number] {
  const [, key, jobs] = /^(.+)=(\d{1,15})$/s.exec(text) ?? []
  if (key !== undefined) return [key, Number(jobs)]
  throw new SluiceError('cli.usage', `--keys is invalid: ${quote(text)}. Expected the jobs of each key, as acme=500.`)
}

/** Whether a text is a policy, as 1000/m, and not the name of a limit. */
function isPolicyText(text: string): boolean {
  return /^(?:one )?(?:every \d|[\d,]+(?:\/| (?:per|in|at) ))/.test(text)
}
