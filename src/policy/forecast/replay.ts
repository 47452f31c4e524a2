/** Replays arrivals through a policy: the waits, the losses and the use of the budget that it would have meant. */
import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { END_OF_TIME_MS, parseInstant } from '../../base/instant.ts'
import { checkOptions, show } from '../../base/options.ts'
import { charge, deniedUntil, newBucket, type BucketState } from '../limits/bucket.ts'
import { checkUnits } from '../limits/define.ts'
import type { Key } from '../limits/key-path.ts'
import type { LimitPolicy } from '../limits/limit.ts'
import { normalisePolicy } from '../limits/normalise.ts'
import { partitionKey } from '../limits/partition-key.ts'
import type { Policy } from '../limits/policy.ts'
import { enforced } from '../limits/shadow.ts'
import { capacityOf } from '../rules/rule-state.ts'

/** One arrival: a start that was asked for. */
export interface Arrival {
  /** A date, a text in ISO 8601 with its zone, or ms since 1970. */
  readonly at: Date | string | number
  /** Its partition key; default: one budget for all such arrivals. */
  readonly key?: Key | null
  /** Units that it costs; default 1. */
  readonly weight?: number
  /** How long it ran, for a policy with `concurrency`; default: that of the options. */
  readonly runTime?: Duration
}

/** The waits of one key, or of all. */
export interface ReplayedWaits {
  readonly arrivals: number
  /** Starts that would have come later than their arrival. */
  readonly delayed: number
  /** Arrivals that would never have started, by `onLimit: 'drop'` or `maxWait`. */
  readonly dropped: number
  /** Arrivals that would still have waited when the last one came. */
  readonly backlog: number
  /** The waits of those that would have started, in ms; 0 without any. */
  readonly p50Ms: number
  readonly p99Ms: number
  readonly worstMs: number
}

/** The effect of a policy on real arrivals. */
export interface Replay extends ReplayedWaits {
  /** The first and the last arrival; null: there is none. */
  readonly from: Date | null
  readonly until: Date | null
  readonly keys: number
  /**
   * The part of the budgets of these keys that the starts would have used, 0 to 1, from the first arrival to the last
   * start.
   */
  readonly used: number
  /** The keys with the longest waits and the most losses, at most 10. Null: the budget without a key. */
  readonly worst: readonly (ReplayedWaits & { readonly key: string | null })[]
}

/** A checked arrival. */
export interface CheckedArrival {
  readonly atUs: number
  readonly key: string
  readonly weight: number
  /** Null: unknown. */
  readonly runUs: number | null
}

const WORST = 10

/**
 * Says what a policy would have done to these arrivals: each starts as soon as its budget admits it, in the order of
 * arrival within its key. Retries, priorities, headroom, other limits and free slots do not count. `mode: 'shadow'` counts
 * as enforced.
 *
 * @param policy an object such as `{ rate: 100, per: '1m' }`, or a text such as `'100/m'`.
 * @param options.runTime how long a start ran that does not say so itself. A policy with `concurrency` needs it.
 * @throws {SluiceError} `policy.invalid`, `option.invalid`, `duration.invalid`, `limit.weight.invalid`,
 * `limit.key.invalid`
 */
export function replay(
  policy: Policy | string,
  arrivals: Iterable<Arrival>,
  options: { readonly runTime?: Duration } = {},
): Replay {
  if (typeof arrivals !== 'object' || arrivals === null || !(Symbol.iterator in arrivals))
    throw new SluiceError(
      'option.invalid',
      `replay: the arrivals are invalid: ${show(arrivals)}. Expected a list such as [{ at, key }].`,
    )
  return replayNamed(policy, arrivals, (place) => `replay: arrival ${place + 1}`, options)
}

/** As `replay`. @param nameOf the name of an arrival in messages, by its place from 0 on */
export function replayNamed(
  policy: Policy | string,
  arrivals: Iterable<Arrival>,
  nameOf: (place: number) => string,
  options: { readonly runTime?: Duration } = {},
): Replay {
  checkOptions(options, ['runTime'], 'replay')
  const rules = enforced(normalisePolicy(policy, 'replay'))
  const runUs = options.runTime === undefined ? null : durationUs(options.runTime, 'replay: runTime')
  const checked: CheckedArrival[] = []
  let place = 0
  for (const arrival of arrivals) {
    const found = checkArrival(arrival, rules, nameOf(place++))
    if (found) checked.push(found)
  }
  return replayed(rules, checked, runUs)
}

/** Checks one arrival; null: the policy does not limit it. @throws {SluiceError} the codes of `replay` */
function checkArrival(arrival: Arrival, policy: LimitPolicy, what: string): CheckedArrival | null {
  checkOptions(arrival, ['at', 'key', 'weight', 'runTime'], what)
  const { at, key, weight, runTime } = arrival
  const ms = at instanceof Date ? at.getTime() : typeof at === 'string' ? parseInstant(at) : at
  if (typeof ms !== 'number' || !(ms >= 0 && ms < END_OF_TIME_MS))
    throw new SluiceError(
      'option.invalid',
      `${what}: at is invalid: ${show(at)}. Expected a date, ms since 1970, or a text such as '2030-01-31T12:00:00Z'.`,
    )
  const found = partitionKey(key, policy.onMissingKey ?? 'shared', what)
  if (found.kind === 'missing') return null
  return {
    atUs: Math.round(ms * 1000),
    key: found.key,
    weight: weight === undefined ? 1 : checkUnits(weight, what),
    runUs: runTime === undefined ? null : durationUs(runTime, `${what}: runTime`),
  }
}

/** The effect of a policy on checked arrivals. @param runUs of starts that do not say how long they ran */
export function replayed(policy: LimitPolicy, arrivals: readonly CheckedArrival[], runUs: number | null): Replay {
  const inOrder = arrivals.toSorted((a, b) => a.atUs - b.atUs)
  const [first, last] = [inOrder[0], inOrder.at(-1)]
  const meanUs = policy.concurrency === null ? 0 : (runUs ?? meanRunUs(inOrder))
  const keys = new Map<string, KeyReplay>()
  for (const arrival of inOrder) {
    let key = keys.get(arrival.key)
    if (!key) keys.set(arrival.key, (key = new KeyReplay(policy, arrival.atUs)))
    key.add(arrival, arrival.runUs ?? meanUs)
  }
  const all = [...keys.values()]
  const lastUs = last?.atUs ?? 0
  const endUs = Math.max(lastUs, ...all.map((key) => key.lastUs))
  const spanUs = endUs - (first?.atUs ?? 0)
  const budget = all.length * budgetOver(policy, spanUs)
  const spent = all.reduce((sum, key) => sum + key.spent, 0)
  return {
    ...waitsOf(all, lastUs),
    from: first ? new Date(first.atUs / 1000) : null,
    until: last ? new Date(last.atUs / 1000) : null,
    keys: keys.size,
    used: budget > 0 ? Math.min(1, spent / budget) : 0,
    worst: [...keys]
      .map(([key, each]) => ({ key: key === '' ? null : key, ...waitsOf([each], lastUs) }))
      .toSorted((a, b) => b.worstMs - a.worstMs || b.dropped - a.dropped || b.arrivals - a.arrivals)
      .slice(0, WORST),
  }
}

/** The arrivals of one key, one after another. */
class KeyReplay {
  readonly waits: number[] = []
  readonly starts: number[] = []
  dropped = 0
  /** The last start. */
  lastUs: number
  /** Units, or for permits alone µs of runs. */
  spent = 0
  readonly #policy: LimitPolicy
  /** Permits are taken one by one, so that a run need not be counted. */
  readonly #timed: LimitPolicy
  readonly #state: BucketState
  /** The ends of the runs that hold permits. */
  readonly #ends: number[] = []

  constructor(policy: LimitPolicy, firstUs: number) {
    this.#policy = policy
    this.#timed = { ...policy, concurrency: null }
    this.#state = newBucket(policy, firstUs)
    this.lastUs = firstUs
  }

  add({ atUs, weight }: CheckedArrival, runUs: number): void {
    const startUs = this.#startOf(Math.max(atUs, this.lastUs), weight)
    const waitUs = startUs - atUs
    const { onLimit, maxWaitUs, concurrency, rule } = this.#policy
    if ((onLimit === 'drop' && waitUs > 0) || (maxWaitUs !== null && waitUs > maxWaitUs)) {
      this.dropped++
      return
    }
    this.waits.push(waitUs)
    this.starts.push(startUs)
    if (startUs === Infinity) return
    this.lastUs = startUs
    charge(this.#timed, this.#state, startUs, weight)
    if (concurrency !== null) this.#hold(startUs + runUs)
    this.spent += rule === null ? runUs : rule.kind === 'spacing' ? 1 : weight
  }

  #startOf(fromUs: number, weight: number): number {
    let startUs = fromUs
    const { concurrency } = this.#policy
    if (concurrency === 0) return Infinity
    if (concurrency !== null) {
      while (this.#ends.length > 0 && (this.#ends[0] as number) <= startUs) this.#ends.shift()
      if (this.#ends.length >= concurrency)
        startUs = Math.max(startUs, this.#ends[this.#ends.length - concurrency] as number)
    }
    return deniedUntil(this.#timed, this.#state, 0, startUs, weight) ?? startUs
  }

  /** Keeps the ends in order. Runs are mostly alike, so a new end is nearly the last. */
  #hold(endUs: number): void {
    let at = this.#ends.length
    while (at > 0 && (this.#ends[at - 1] as number) > endUs) at--
    this.#ends.splice(at, 0, endUs)
  }
}

function waitsOf(keys: readonly KeyReplay[], lastUs: number): ReplayedWaits {
  const waits = Float64Array.from(keys.flatMap((key) => key.waits)).sort()
  const dropped = keys.reduce((sum, key) => sum + key.dropped, 0)
  const at = (part: number): number => (waits[Math.max(0, Math.ceil(part * waits.length) - 1)] ?? 0) / 1000
  return {
    arrivals: waits.length + dropped,
    delayed: waits.reduce((count, waitUs) => count + (waitUs > 0 ? 1 : 0), 0),
    dropped,
    backlog: keys.reduce((sum, { starts }) => sum + starts.reduce((n, us) => n + (us > lastUs ? 1 : 0), 0), 0),
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    worstMs: at(1),
  }
}

/** The most units that one budget admits in a time, or µs of runs that it holds. */
function budgetOver({ rule, concurrency }: LimitPolicy, spanUs: number): number {
  if (rule === null) return (concurrency ?? 0) * spanUs
  if (rule.kind === 'rate') return rule.burst + (spanUs * rule.rate) / rule.periodUs
  if (rule.kind === 'spacing') return 1 + spanUs / rule.everyUs
  const periodUs =
    rule.kind === 'sliding'
      ? rule.periodUs
      : rule.window.align === 'epoch'
        ? rule.window.periodUs
        : LONG_US[rule.window.unit]
  return capacityOf(rule) * (1 + spanUs / periodUs)
}

const LONG_US = { hour: 3.6e9, day: 8.64e10, week: 6.048e11, month: 2.6784e12 } as const

function meanRunUs(arrivals: readonly CheckedArrival[]): number {
  const known = arrivals.flatMap(({ runUs }) => runUs ?? [])
  if (known.length > 0 || arrivals.length === 0)
    return known.reduce((sum, us) => sum + us, 0) / Math.max(1, known.length)
  throw new SluiceError(
    'option.invalid',
    'replay: the policy has concurrency, and no arrival says how long it ran. Give runTime.',
  )
}
