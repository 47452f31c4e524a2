import { NEVER_US } from '../../policy/admission/lane.ts'
import { type BucketState, view } from '../../policy/limits/bucket.ts'
import { belowHeadroom } from '../../policy/limits/headroom.ts'
import { outsideUntil } from '../../policy/limits/guarantee.ts'
import { type Guarantee, guardInForce, type LimitPolicy } from '../../policy/limits/limit.ts'
import { shadowWaitUs } from '../../policy/limits/shadow.ts'
import { expectedStartUs } from '../../policy/limits/start-time.ts'
import type { BucketReport, Override } from '../contract/limits.ts'
import { loadBuckets, ofTheFleet } from './buckets.ts'
import { isPaused, overridesOf, pausedUntilUs } from './overrides.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, now } from './sql.ts'
import { LANE, STATE } from './state.ts'
import { atEndOfOverride, type StoredBucket } from './stored-bucket.ts'
import type { Timelines } from './timelines.ts'

/** The number, the weights and the given priorities of the jobs in a bucket's wait list. */
type WaitingRow = [
  bucket: number,
  count: number,
  mean: number,
  least: number,
  most: number,
  lowest: number,
  highest: number,
]

/** Bounds the sample of a deep backlog, since reading all of it would cost too much. */
const WEIGHED_AT_MOST = 10_000

/** Reports the buckets of a limit, or the one of a key, in their present state. */
export function* inspect(access: Access, limit: string, key?: string): Reading<BucketReport[]> {
  const limits = yield* ask(() => access.limits())
  const instant = yield* now(access)
  const { nowUs } = instant
  const timeline = limits.timeline(limit)
  if (!timeline.definition) return []
  const own = timeline.definition.policy.scope === 'worker'
  const where = own ? ofWorkers(access) : ofTheFleet(key ?? null)
  const reports = yield* reportAll(
    access,
    limits,
    yield* loadBuckets(access, limits, instant, where, limit, key ?? null),
    {
      nowUs,
      own,
    },
  )
  if (key === undefined || reports.length > 0) return reports
  // No start has used the key: the report shows a new bucket.
  const { policy } = timeline.at(key)
  const state = timeline.carry(key, null, 0, nowUs)
  if (!policy || !state) return []
  const unused = { limit, key, policy, state, active: 0 }
  return [{ ...shown(unused, overridesOf(limits, limit, key), nowUs), ...(own && { worker: null }) }]
}

/** Reports the used buckets of these keys together, by key. */
export function* inspectKeys(access: Access, limit: string, keys: readonly string[]): Reading<BucketReport[]> {
  const limits = yield* ask(() => access.limits())
  const instant = yield* now(access)
  const { definition } = limits.timeline(limit)
  if (!definition || keys.length === 0) return []
  const own = definition.policy.scope === 'worker'
  const of = own ? `${access.ownOf} AND ${OF_LIVE_WORKERS} AND b.key = ANY ($2::text[])` : OF_KEYS
  const where = `${of} ORDER BY b.key, b.worker`
  const buckets = yield* loadBuckets(access, limits, instant, where, limit, keys)
  return yield* reportAll(access, limits, buckets, { nowUs: instant.nowUs, own })
}

function* reportAll(
  access: Access,
  limits: Timelines,
  buckets: readonly StoredBucket[],
  { nowUs, own }: { readonly nowUs: number; readonly own: boolean },
): Reading<BucketReport[]> {
  const waiting = yield* waitingIn(access, buckets)
  return buckets.map((bucket) => ({
    ...report(bucket, limits, waiting.get(bucket.id), nowUs),
    ...(own && { worker: bucket.worker }),
  }))
}

const OF_LIVE_WORKERS = 'b.worker IN (SELECT id FROM sluice.workers)'

/** One look-up by the index for each key: the planner may prefer to read all keys of the limit in their order. */
const OF_KEYS = `b.id = ANY (ARRAY(SELECT (SELECT i.id FROM sluice.buckets i
  WHERE i.limit_name = $1 AND i.key = k.value AND i.worker = 0) FROM unnest($2::text[]) k(value)))`

function ofWorkers({ ownOf }: Access): string {
  return `${ownOf} AND ($2::text IS NULL OR b.key = $2) AND ${OF_LIVE_WORKERS} ORDER BY b.worker, b.key`
}

function report(bucket: StoredBucket, limits: Timelines, waiting: WaitingRow | undefined, nowUs: number): BucketReport {
  const { limit, key, policy, state, active } = bucket
  const overrides = overridesOf(limits, limit, key)
  const found = { ...shown(bucket, overrides, nowUs), nextStartUs: nextStartOf(bucket, overrides, nowUs) }
  if (!waiting) return found
  const [, count, mean, least, most, lowest, highest] = waiting
  if (!policy) return { ...found, waiting: count }
  // For jobs of different weights only the units are added up, but permits count jobs.
  const even = least === most || policy.concurrency !== null
  const backlog = even ? { count, weight: least } : { count: Math.round(count * mean), weight: 1 }
  const met = belowHeadroom({ policy, state }, lowest, highest)
  return { ...found, waiting: count, drainedUs: expectedStartUs(met.policy, met.state, active, nowUs, backlog) }
}

/** The wait lists of these buckets, by bucket. Lists are read together, but a deep one by itself, and only in part. */
function* waitingIn({ db, laneKey }: Access, buckets: readonly StoredBucket[]): Reading<Map<number, WaitingRow>> {
  const inLists = `FROM sluice.lanes l CROSS JOIN sluice.jobs j WHERE j.lane = coalesce(l.base, l.${laneKey})
    AND j.state = ${STATE.available} AND l.bucket = ANY ($1::bigint[]) AND l.state = ${LANE.waiting}`
  if (buckets.length === 0) return new Map()
  const ids = buckets.map(({ id }) => id)
  const counted = yield* all<[number, number]>(db, `SELECT l.bucket, count(*) ${inLists} GROUP BY l.bucket`, ids)
  const weights = `SELECT bucket, count(*), avg(units)::float8, min(units), max(units), min(given), max(given) FROM
    (SELECT l.bucket, coalesce((j.weights::json ->> (array_position(l.buckets, l.bucket) - 1))::int, 1) AS units,
     coalesce(j.asked, j.priority) AS given ${inLists} LIMIT ${WEIGHED_AT_MOST}) s GROUP BY bucket`
  const waiting = new Map<number, WaitingRow>()
  for (const lists of batchesOf(counted)) {
    const counts = new Map(lists)
    for (const [id, weighed, ...rest] of yield* all<WaitingRow>(db, weights, [...counts.keys()]))
      waiting.set(id, [id, counts.get(id) ?? weighed, ...rest])
  }
  return waiting
}

/** Groups wait lists whose jobs can be weighed at once; a deeper list is a group by itself. */
function batchesOf(lists: readonly [number, number][]): [number, number][][] {
  const batches: [number, number][][] = []
  let room = 0
  for (const list of lists) {
    const [, count] = list
    if (count > room) {
      batches.push([])
      room = WEIGHED_AT_MOST
    }
    batches.at(-1)?.push(list)
    room -= count
  }
  return batches
}

interface ShownBucket {
  readonly limit: string
  readonly key: string
  readonly policy: LimitPolicy | null
  readonly state: BucketState
  readonly active: number
}

/** A bucket without its waiting jobs. */
function shown(
  { limit, key, policy, state, active }: ShownBucket,
  overrides: readonly Override[],
  nowUs: number,
): BucketReport {
  const { available, debt, capacity } = policy
    ? view(policy, state, active, nowUs)
    : { available: 0, debt: 0, capacity: 0 }
  const headroom = policy?.headroom && { headroom: policy.headroom }
  const guard = policy && guardInForce(policy)
  const idle = { waiting: 0, nextStartUs: null, drainedUs: null }
  const tally = state.shadow ?? { delayed: 0, dropped: 0, totalUs: 0, worstUs: 0 }
  const isShadow = policy?.mode === 'shadow'
  const shadow = isShadow && { ...tally, waitUs: shadowWaitUs(policy, state, active, nowUs) }
  const guarantee = policy?.of && shareOf(policy.of, state, active, nowUs)
  const more = { ...headroom, ...(guard && { guard }), ...(guarantee && { guarantee }), ...(shadow && { shadow }) }
  return { limit, key, available, debt, capacity, active, ...idle, ...more, overrides }
}

function shareOf(of: Guarantee, state: BucketState, active: number, nowUs: number): BucketReport['guarantee'] {
  const fromUs = outsideUntil(of, state, active, nowUs, 1) ?? nowUs
  return { limit: of.limit, fromUs: fromUs === Infinity ? null : fromUs }
}

function nextStartOf(bucket: StoredBucket, overrides: readonly Override[], nowUs: number): number | null {
  const { wakeAtUs } = bucket
  if (wakeAtUs === null) return null
  if (isPaused(overrides)) return pausedUntilUs(overrides)
  return wakeAtUs === NEVER_US ? null : Math.max(atEndOfOverride(wakeAtUs, bucket), nowUs)
}
