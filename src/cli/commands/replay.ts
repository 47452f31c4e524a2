import type { Command } from 'commander'
import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { pathText, repeatedName } from '../../base/json-text.ts'
import type { Arrival, Replay, ReplayedWaits } from '../../policy/forecast/replay.ts'
import { groupDigits } from '../../policy/limits/policy-words.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import { jsonOf } from '../json.ts'
import { linesIn } from '../ndjson.ts'
import { type Column, tableOf } from '../table.ts'
import {
  addStoreOptions,
  reportErrors,
  requireName,
  show,
  showView,
  type View,
  type ViewFlags,
  wholeOf,
} from '../view.ts'
import { inWords } from '../words.ts'

interface ReplayFlags extends ViewFlags {
  readonly policy: string
  readonly since?: string
  readonly until?: string
  readonly task?: string
  readonly queue?: string
  readonly by?: string
  readonly weight?: string
  readonly runTime?: string
  readonly file?: string
}

const DETAILS = `
Replays the jobs that the store keeps, or the arrivals in a file, through a policy. Each job arrives when it was enqueued,
and starts as soon as the budget of its key admits it. Other limits, priorities, delays and retries do not count.

  sluice replay --policy 100/m --since 24h
  sluice replay --policy '{"window":"sliding","max":15,"per":"1m"}' --since 7d --task tenant.sync --by tenantId
  sluice replay --policy "60/m, 4 at once" --file arrivals.ndjson --run-time 2s --json

A file has one arrival in each line, in any order; only "at" must be there (ISO 8601 with its zone, or ms since 1970):
{"at":"2030-01-31T12:00:00Z","key":"acme","weight":1,"runTime":"2s"}

Exit code: 0; 1 when there is no such store, or no arrival; 2 for a wrong option, policy, file or line.`

/** Of a file that is larger, the process could not hold the arrivals. */
const MOST_LINES = 5_000_000

/** Adds `sluice replay`. */
export function registerReplay(program: Command): void {
  const command = program
    .command('replay')
    .description('what a policy would have done to the jobs of the last hours')
    .requiredOption('--policy <policy>', 'a text such as "100/m burst 5", or JSON')
    .option('--since <time>', 'jobs enqueued from then on: so long ago (24h), or a time in ISO 8601')
    .option('--until <time>', 'jobs enqueued before then')
    .option('--task <name>', 'jobs of this task')
    .option('--queue <name>', 'jobs of this queue')
    .option('--by <path>', 'a budget for each value at this path of the input, such as tenantId')
    .option('--weight <units>', 'units that each start costs, or a path of the input (default: 1)')
    .option('--run-time <duration>', 'how long a start runs that does not say so, for a policy with concurrency')
    .option('--file <path>', 'arrivals as NDJSON, in place of a store; - reads standard input')
  addStoreOptions(command).addHelpText('after', DETAILS).action(replay)
}

async function replay(flags: ReplayFlags): Promise<void> {
  if (flags.file !== undefined) return reportErrors(() => ofFile(flags, flags.file as string))
  await reportErrors(async () => {
    if (flags.since === undefined)
      throw new SluiceError('cli.usage', 'Name the jobs (--since 24h), or a file of arrivals (--file arrivals.ndjson).')
    requireName(flags.by, '--by')
    policyOf(flags.policy)
  })
  if (process.exitCode !== undefined && process.exitCode !== 0) return
  const { replayJobs } = await import('../../engine/api/replay.ts')
  await show(flags, async (store) => {
    const { since = '', until, task, queue, by, weight, runTime } = flags
    const found = await replayJobs(store, policyOf(flags.policy), {
      since,
      ...(until !== undefined && { until }),
      ...(task !== undefined && { task }),
      ...(queue !== undefined && { queue }),
      ...(by !== undefined && { by }),
      ...(weight !== undefined && { weight: /^[-+.\d]|^$/.test(weight) ? wholeOf(weight, '--weight') : weight }),
      ...(runTime !== undefined && { runTime: runTime as Duration }),
    })
    return viewOf(found, found.truncated)
  })
}

async function ofFile(flags: ReplayFlags, path: string): Promise<void> {
  for (const name of ['store', 'since', 'until', 'task', 'queue', 'by', 'weight'] as const)
    if (flags[name] !== undefined)
      throw new SluiceError(
        'cli.usage',
        `--${name} and --file exclude each other: each line of a file says all. Omit --${name}.`,
      )
  const policy = policyOf(flags.policy)
  const { replayNamed } = await import('../../policy/forecast/replay.ts')
  const { runTime } = flags
  const { arrivals, lines } = await arrivalsIn(path)
  const nameOf = (place: number): string => lineOf(path, lines[place])
  const found = replayNamed(policy, arrivals, nameOf, runTime === undefined ? {} : { runTime: runTime as Duration })
  await showView(flags, viewOf(found, false))
}

/** The policy of `--policy`, unchecked: an object in JSON, or a text. */
function policyOf(text: string): Policy | string {
  return text.trimStart().startsWith('{') ? (jsonOf(text, '--policy', '{"rate":100,"per":"1m"}') as Policy) : text
}

/** Reads one arrival per line; empty lines do not count. */
async function arrivalsIn(path: string): Promise<{ arrivals: Arrival[]; lines: number[] }> {
  const arrivals: Arrival[] = []
  const lines: number[] = []
  for await (const { line, text } of linesIn(path)) {
    if (arrivals.length >= MOST_LINES)
      throw new SluiceError('cli.usage', `${path} has more than ${groupDigits(MOST_LINES)} arrivals. Split the file.`)
    arrivals.push(arrivalIn(text, lineOf(path, line)))
    lines.push(line)
  }
  return { arrivals, lines }
}

function lineOf(path: string, line: number | undefined): string {
  return `${path}, line ${line}`
}

function arrivalIn(text: string, what: string): Arrival {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new SluiceError('cli.usage', `${what} is not JSON. Expected {"at":"2030-01-31T12:00:00Z","key":"acme"}.`, {
      cause,
    })
  }
  const repeated = repeatedName(text, value)
  if (repeated)
    throw new SluiceError(
      'cli.usage',
      `${what} is invalid: ${pathText(repeated)} is there twice. Expected each name once.`,
    )
  return value as Arrival
}

const COLUMNS: readonly Column[] = [
  { head: 'key' },
  { head: 'arrivals', right: true },
  { head: 'delayed', right: true },
  { head: 'dropped', right: true },
  { head: 'half wait', right: true },
  { head: '99 of 100', right: true },
  { head: 'longest', right: true },
]

function viewOf(found: Replay, truncated: boolean): View {
  if (found.arrivals === 0) process.exitCode = 1
  const row = (name: string, each: ReplayedWaits): string[] => [
    name,
    ...[each.arrivals, each.delayed, each.dropped].map(groupDigits),
    ...[each.p50Ms, each.p99Ms, each.worstMs].map((ms) => (ms === Infinity ? 'never' : inWords(ms))),
  ]
  return {
    data: found,
    lines: (paint) => {
      const { from, until, keys, used, backlog, worst } = found
      if (!from || !until) return [paint('yellow', 'There is no arrival.')]
      return [
        `${paint('bold', groupDigits(found.arrivals))} arrivals of ${groupDigits(keys)} ${keys === 1 ? 'key' : 'keys'}, ${from.toISOString()} to ${until.toISOString()}`,
        `${Math.round(used * 100)} % of the budget used; ${groupDigits(backlog)} still wait at the end`,
        ...tableOf(COLUMNS, [row('all', found), ...worst.map((each) => row(each.key ?? '(no key)', each))], paint),
        ...(truncated
          ? [paint('yellow', 'The store has more jobs since then: the newest million were replayed.')]
          : []),
      ]
    },
  }
}
