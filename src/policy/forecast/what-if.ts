/** What-if: how long a backlog takes under a policy, computed from the policy alone. */
import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkInstant } from '../../base/instant.ts'
import { checkOptions, show } from '../../base/options.ts'
import { type BucketState, newBucket } from '../limits/bucket.ts'
import { checkUnits } from '../limits/define.ts'
import { drain, type Pile } from './drain.ts'
import type { LimitPolicy } from '../limits/limit.ts'
import type { SpacingRule } from '../rules/rule.ts'
import { keptBack, type EffectiveBucket, belowHeadroom } from '../limits/headroom.ts'
import { normalisePolicy } from '../limits/normalise.ts'
import type { Policy } from '../limits/policy.ts'
import { capacityOf } from '../rules/rule-state.ts'

/** The assumed backlog: jobs spread evenly over `keys` keys (default 1), or the number of jobs of each key. */
export type BacklogSpec =
  | { readonly count: number; readonly keys?: number; readonly weight?: number }
  | { readonly keys: Readonly<Record<string, number>>; readonly weight?: number }

/** The assumptions of a forecast. */
export interface ForecastOptions {
  /** The number of waiting jobs, or their number, weight and keys. */
  readonly backlog: number | BacklogSpec
  /** A second limit that all keys share. */
  readonly shared?: Policy | string
  /** How long each job runs. A limit with `concurrency` needs it; without it only the limit's other rule counts. */
  readonly runTime?: Duration
  /**
   * When the backlog arrives. It matters only for fixed windows; default: 1970-01-01T00:00Z, the start of a window in
   * UTC.
   */
  readonly at?: Date
}

/** When a backlog is done, from now on, if every start happens as early as possible. Null: permits decide. */
export interface Waits {
  /** Until the last job may start, in ms. */
  readonly drainMs: number | null
  /** Half of the jobs wait no longer than this, in ms. */
  readonly p50Ms: number | null
  /** 99 of 100 jobs wait no longer than this, in ms. */
  readonly p99Ms: number | null
}

/** How long a backlog takes, now and with twice the rate. */
export interface Forecast extends Waits {
  readonly jobs: number
  readonly keys: number
  /** The same with twice the rate: `rate` or `max` doubled, `every` halved. Other limits stay as they are. */
  readonly doubled: Waits
  /** False: a lower bound or an estimate, for the reasons in `caveats`. */
  readonly exact: boolean
  readonly caveats: readonly string[]
}

/** The waiting jobs of one limit, ready for a forecast. */
export interface Situation {
  readonly piles: readonly Pile[]
  /** The bucket of a second limit that all these jobs need. */
  readonly shared: { readonly policy: LimitPolicy; readonly state: BucketState; readonly active: number } | null
  readonly nowUs: number
  readonly runUs: number | null
  /** Some of the jobs need further limits. */
  readonly joint?: boolean
}

/**
 * Computes how long a backlog takes under a policy with unused buckets. Pure, and fast for any size.
 *
 * @throws {SluiceError} `policy.invalid`
 * @throws {SluiceError} `option.invalid` for an invalid backlog
 * @throws {SluiceError} `limit.weight.invalid`, `limit.weight.above_burst` for its weight
 */
export function forecast(policy: Policy | string, options: ForecastOptions): Forecast {
  checkOptions(options, ['backlog', 'shared', 'runTime', 'at'], 'forecast')
  const shared = options.shared === undefined ? null : normalisePolicy(options.shared, 'forecast: shared')
  return forecastOf(freshSituation(normalisePolicy(policy, 'forecast'), shared, options))
}

/** A backlog with unused buckets. It throws as `forecast` does. */
export function freshSituation(policy: LimitPolicy, shared: LimitPolicy | null, options: ForecastOptions): Situation {
  const { at, backlog, runTime } = options
  const nowUs = at === undefined ? 0 : Math.round(instantOf(at) * 1000)
  if (typeof backlog !== 'number') checkOptions(backlog, ['count', 'keys', 'weight'], 'forecast: backlog')
  const spec = typeof backlog === 'number' ? { count: backlog } : backlog
  const weight = spec.weight === undefined ? 1 : checkUnits(spec.weight, 'forecast')
  for (const each of shared === null ? [policy] : [policy, shared]) refuseHeavy(each, weight)
  // A hypothetical backlog has jobs without a priority.
  const fresh = (each: LimitPolicy): EffectiveBucket =>
    belowHeadroom({ policy: each, state: newBucket(each, nowUs) }, 0)
  const piles = pilesOf(spec).map(({ count, times }) => ({
    ...fresh(policy),
    active: 0,
    backlog: { count, weight },
    even: true,
    jobs: count,
    times,
  }))
  return {
    piles,
    shared: shared && { ...fresh(shared), active: 0 },
    nowUs,
    runUs: runTimeUs(runTime),
  }
}

function instantOf(at: unknown): number {
  if (at instanceof Date && !Number.isNaN(at.getTime())) return checkInstant(at.getTime(), 'forecast: at')
  throw invalid('at is invalid: not a valid date. Expected a Date.')
}

/** Reads how long a job runs, in µs; null: unknown. @throws {SluiceError} `duration.invalid` */
export function runTimeUs(runTime: Duration | undefined): number | null {
  return runTime === undefined ? null : durationUs(runTime, 'forecast: runTime')
}

/** Computes how long all waiting jobs take, now and with twice the rate. */
export function forecastOf(situation: Situation): Forecast {
  const { piles, shared } = situation
  const jobs = piles.reduce((sum, pile) => sum + pile.jobs * pile.times, 0)
  const caveats = caveatsOf(situation)
  const fast = piles.map((pile) => ({ ...pile, policy: doubleRate(pile.policy) }))
  const waits = (each: readonly Pile[]): Waits => {
    const own = drain(each, situation.nowUs, situation.runUs)
    if (!shared || jobs === 0) return inMs(own)
    const units = piles.reduce((sum, { backlog, times }) => sum + backlog.count * backlog.weight * times, 0)
    // If weights differ, or are too heavy for the shared limit to split evenly, only the units are certain.
    const [first] = piles
    const even = first !== undefined && piles.every((pile) => pile.even && pile.backlog.weight === first.backlog.weight)
    const backlog = even ? { count: jobs, weight: first.backlog.weight } : { count: units, weight: 1 }
    return inMs(own, drain([{ ...shared, backlog, even, jobs, times: 1 }], situation.nowUs, situation.runUs))
  }
  return {
    jobs,
    keys: piles.reduce((sum, pile) => sum + pile.times, 0),
    ...waits(piles),
    doubled: waits(fast),
    exact: caveats.length === 0,
    caveats,
  }
}

/** The later of several limits, each by itself, as durations in ms. */
function inMs(...all: readonly ReturnType<typeof drain>[]): Waits {
  const later = (name: 'drainUs' | 'p50Us' | 'p99Us'): number | null => {
    let us = 0
    for (const each of all) {
      const found = each[name]
      if (found === null) return null
      us = Math.max(us, found)
    }
    return us / 1000
  }
  return { drainMs: later('drainUs'), p50Ms: later('p50Us'), p99Ms: later('p99Us') }
}

function caveatsOf({ piles, shared, runUs, joint }: Situation): string[] {
  const caveats: string[] = []
  const policies = [...piles.map(({ policy }) => policy), ...(shared ? [shared.policy] : [])]
  const withPermits = policies.filter(({ concurrency }) => concurrency !== null)
  if (shared) caveats.push('two limits hold the jobs: this is the later of both, and it may take longer')
  if (joint) caveats.push('the jobs need further limits, which are left out: it may take longer')
  if (withPermits.length > 0 && runUs === null) caveats.push('concurrency is left out: say how long a job runs')
  else if (withPermits.some(({ rule }) => rule !== null))
    caveats.push('jobs hold permits while they run: this is the later of rate and concurrency, and it may take longer')
  if (policies.some(({ rule, spacing }) => spacing && rule?.kind !== 'rate'))
    caveats.push('a window and a spacing hold the jobs: this is the later of both, and it may take longer')
  for (const limit of new Set(policies.flatMap(({ of }) => of?.limit ?? [])))
    caveats.push(`each start pays to limit ${limit} too, of which a share is guaranteed: it may take longer`)
  if (piles.some(({ even }) => !even)) caveats.push('weights differ: the jobs are reckoned by their units')
  return caveats
}

/** Twice as much in the same time. A burst that equals the rate grows with it. */
function doubleRate(policy: LimitPolicy): LimitPolicy {
  const { rule, spacing } = policy
  if (rule === null) return { ...policy, concurrency: policy.concurrency === null ? null : 2 * policy.concurrency }
  if (rule.kind === 'spacing') return { ...policy, rule: halved(rule) }
  const beside = spacing ? { spacing: halved(spacing) } : {}
  if (rule.kind !== 'rate') return { ...policy, ...beside, rule: { ...rule, max: 2 * rule.max } }
  const burst = rule.burst === rule.rate ? 2 * rule.burst : rule.burst
  return { ...policy, ...beside, rule: { ...rule, rate: 2 * rule.rate, burst } }
}

function halved(rule: SpacingRule): SpacingRule {
  return { ...rule, everyUs: Math.max(1, Math.ceil(rule.everyUs / 2)) }
}

/** Jobs spread evenly over keys make two piles at most. */
function pilesOf(spec: BacklogSpec): { count: number; times: number }[] {
  if (!('count' in spec)) {
    const times = new Map<number, number>()
    if (typeof spec.keys !== 'object' || spec.keys === null)
      throw invalid(
        `the keys of the backlog are invalid: ${show(spec.keys)}. Expected a count, or the jobs of each key.`,
      )
    for (const [key, count] of Object.entries(spec.keys)) {
      whole(count, `the backlog of key ${key}`, 0)
      times.set(count, (times.get(count) ?? 0) + 1)
    }
    return [...times].map(([count, each]) => ({ count, times: each }))
  }
  const count = whole(spec.count, 'the backlog', 0)
  const keys = whole(spec.keys ?? 1, 'the number of keys', 1)
  const least = Math.floor(count / keys)
  const more = count % keys
  return [
    { count: least + 1, times: more },
    { count: least, times: keys - more },
  ].filter(({ times }) => times > 0)
}

function whole(value: unknown, what: string, least: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= MOST_JOBS) return value
  throw invalid(`${what} is invalid: ${show(value)}. Expected a whole number from ${least} to ${MOST_JOBS}.`)
}

/** Keeps the units of a backlog exact integers. */
const MOST_JOBS = 1_000_000

function refuseHeavy(policy: LimitPolicy, weight: number): void {
  const { rule } = policy
  if (rule === null || rule.kind === 'spacing' || weight <= capacityOf(rule) - keptBack(policy, 0)) return
  const bound = rule.kind === 'rate' ? 'burst' : 'max'
  throw new SluiceError(
    'limit.weight.above_burst',
    `forecast: a job of weight ${weight} can never start under a ${bound} of ${capacityOf(rule)}${policy.headroom ? ' with its headroom' : ''}. Raise that, or split the job.`,
  )
}

function invalid(message: string): SluiceError {
  return new SluiceError('option.invalid', `forecast: ${message}`)
}
