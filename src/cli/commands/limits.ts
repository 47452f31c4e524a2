import type { Command } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import type { BucketView } from '../../engine/api/bucket-view.ts'
import type { LimitsApi, LimitView } from '../../engine/api/limits.ts'
import type { OverrideView } from '../../engine/api/override-view.ts'
import type { Store } from '../../store/contract/store.ts'
import { registerLimitChanges } from './change-limits.ts'
import { type Column, tableOf } from '../table.ts'
import { addViewOptions, show, type View, type ViewFlags } from '../view.ts'
import { groupDigits, policyInWords } from '../../policy/limits/policy-words.ts'
import { inWords, printable } from '../words.ts'

interface LimitsFlags extends ViewFlags {
  readonly key?: string
}

/** One limit with all its buckets taken together. */
interface LimitTotal extends LimitView {
  readonly buckets: number
  readonly waiting: number
  readonly nextStart: Date | null
  readonly drained: Date | null
}

const DETAILS = `
Without a name: every declared limit, with what waits for it. With a name: its budgets, those with the most waiting first.

  available   units that could start now, of the capacity (burst, max or permits); owed: a debt that later units pay
  running     permits held by running jobs
  waiting     jobs in the line of this budget
  next start  when the first of the line may start; "a permit": when a running job ends
  drained     when all that waits now could have started, if nothing else delays it

Exit code: 0; 1 when there is no such store or limit; 2 for a wrong option.`

const SHOWN = 50

/** Adds `sluice limits`. */
export function registerLimits(program: Command): void {
  const command = program
    .command('limits')
    .description('what every limit has left, and who waits for it')
    .argument('[name]', 'one limit: its budgets, one for each key')
    .option('--key <key>', 'the budget of this key alone')
  registerLimitChanges(command)
  // So that the commands below it may have options of the same name.
  command.enablePositionalOptions()
  addViewOptions(command)
    .addHelpText('after', DETAILS)
    .action((name: string | undefined, flags: LimitsFlags) => show(flags, (store) => look(store, name, flags.key)))
}

async function look(store: Store, name: string | undefined, key: string | undefined): Promise<View> {
  const { LimitsApi } = await import('../../engine/api/limits.ts')
  const { readingParts } = await import('../reading-parts.ts')
  const limits = new LimitsApi(readingParts(store))
  const nowMs = store.nowUs() / 1000
  if (name === undefined) {
    if (key !== undefined)
      throw new SluiceError('cli.usage', '--key needs the name of a limit: sluice limits <name> --key <key>')
    return allLimits(limits, nowMs)
  }
  const buckets = [...(await limits.inspect(name, key))].sort((a, b) => b.waiting - a.waiting)
  const limit = (await limits.list()).find((each) => each.name === name)
  const changed = (await limits.overrides(name)).filter((each) => each.ended === null)
  return {
    data: buckets,
    lines: (paint) => [
      `${paint('bold', name)}${limit ? `: ${ruleInWords(limit)}` : ''}`,
      ...changed.map(overrideInWords),
      ...(buckets.length === 0
        ? ['No budget of this limit is in use.']
        : tableOf(
            BUCKET_COLUMNS,
            buckets.slice(0, SHOWN).map((bucket) => bucketRow(bucket, nowMs)),
            paint,
          )),
      ...(buckets.length > SHOWN
        ? [paint('dim', `and ${groupDigits(buckets.length - SHOWN)} more; --json has all`)]
        : []),
    ],
  }
}

function ruleInWords({ policy, unreadable }: LimitView): string {
  return unreadable ? 'cannot be read: nothing starts until it is defined again' : policyInWords(policy)
}

function overrideInWords({ kind, key, change, until, by, reason }: OverrideView): string {
  const what = kind === 'pause' ? 'paused' : `overridden: ${JSON.stringify(change)}`
  const details = [until && `until ${until.toISOString()}`, by && `by ${by}`, reason].filter(Boolean).join(', ')
  return `${printable(key ?? 'all keys')} ${what}${details === '' ? '' : ` (${printable(details)})`}`
}

async function allLimits(limits: LimitsApi, nowMs: number): Promise<View> {
  const totals: LimitTotal[] = []
  for (const limit of await limits.list()) {
    const buckets = await limits.inspect(limit.name)
    const waiting = buckets.filter((bucket) => bucket.waiting > 0)
    const drained = waiting.map((bucket) => bucket.drained)
    totals.push({
      ...limit,
      buckets: buckets.length,
      waiting: waiting.reduce((sum, bucket) => sum + bucket.waiting, 0),
      nextStart: extreme(
        Math.min,
        waiting.map((bucket) => bucket.nextStart),
      ),
      // One unknown value makes the whole unknown.
      drained: drained.includes(null) ? null : extreme(Math.max, drained),
    })
  }
  return {
    data: totals,
    lines: (paint) =>
      totals.length === 0
        ? ['No limit is defined in this store.']
        : tableOf(
            LIMIT_COLUMNS,
            totals.map((total) => [
              total.name,
              ruleInWords(total),
              groupDigits(total.buckets),
              groupDigits(total.waiting),
              ...times(total, nowMs),
            ]),
            paint,
          ),
  }
}

const TIMES: readonly Column[] = [
  { head: 'next start', right: true },
  { head: 'drained', right: true },
]
const LIMIT_COLUMNS: readonly Column[] = [
  { head: 'limit' },
  { head: 'policy' },
  { head: 'budgets', right: true },
  { head: 'waiting', right: true },
  ...TIMES,
]
const BUCKET_COLUMNS: readonly Column[] = [
  { head: 'key' },
  { head: 'available', right: true },
  { head: 'running', right: true },
  { head: 'waiting', right: true },
  ...TIMES,
]

function bucketRow(bucket: BucketView, nowMs: number): string[] {
  const { key, available, debt, capacity, active, waiting } = bucket
  const owed = debt > 0 ? `, ${groupDigits(debt)} owed` : ''
  return [
    `${key ?? '(all)'}${bucket.worker === undefined ? '' : bucket.worker === null ? ', each worker' : `, worker ${bucket.worker}`}`,
    `${groupDigits(available)} of ${groupDigits(capacity)}${owed}`,
    active === 0 ? '' : groupDigits(active),
    groupDigits(waiting),
    ...times(bucket, nowMs),
  ]
}

/** When the wait list continues and when it is empty; no text if it is empty already. */
function times(each: Pick<BucketView, 'waiting' | 'nextStart' | 'drained'>, nowMs: number): string[] {
  if (each.waiting === 0) return ['', '']
  const words = (date: Date | null, unknown: string): string => (date ? inWords(date.getTime() - nowMs) : unknown)
  return [words(each.nextStart, 'a permit'), words(each.drained, 'unknown')]
}

function extreme(choose: (...values: number[]) => number, dates: readonly (Date | null)[]): Date | null {
  const known = dates.flatMap((date) => (date ? [date.getTime()] : []))
  // Not by spreading them all: a limit may have more keys than a call may have arguments.
  return known.length === 0 ? null : new Date(known.reduce((a, b) => choose(a, b)))
}
