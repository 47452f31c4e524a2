import { NEVER_US } from '../../policy/admission/lane.ts'
import { type BucketState, view } from '../../policy/limits/bucket.ts'
import { belowHeadroom } from '../../policy/limits/headroom.ts'
import { guardInForce, type LimitPolicy } from '../../policy/limits/limit.ts'
import { expectedStartUs } from '../../policy/limits/start-time.ts'
import type { Override } from '../contract/limits.ts'
import type { BucketReport } from '../contract/store.ts'
import { loadBuckets, OF_THE_FLEET } from './buckets.ts'
import { isPaused, overridesOf, pausedUntilUs } from './overrides.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, get, now } from './sql.ts'
import { LANE, STATE } from './state.ts'
import type { StoredBucket } from './stored-bucket.ts'
import type { Timelines } from './timelines.ts'

/** The weights and the given priorities of the jobs in a bucket's wait list. */
type WeightsRow = readonly [mean: number, least: number, most: number, lowest: number, highest: number]

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
  const buckets = yield* loadBuckets(
    access,
    limits,
    instant,
    own ? ofWorkers(access) : OF_THE_FLEET,
    limit,
    key ?? null,
  )
  const reports: BucketReport[] = []
  for (const bucket of buckets)
    reports.push({ ...(yield* report(access, limits, bucket, nowUs)), ...(own && { worker: bucket.worker }) })
  if (key === undefined || reports.length > 0) return reports
  // No start has used the key: the report shows a new bucket.
  const { policy } = timeline.at(key)
  const state = timeline.carry(key, null, 0, nowUs)
  if (!policy || !state) return []
  const unused = { limit, key, policy, state, active: 0 }
  return [{ ...shown(unused, overridesOf(limits, limit, key), nowUs), ...(own && { worker: null }) }]
}

function ofWorkers({ ownOf }: Access): string {
  return `${ownOf} AND ($2::text IS NULL OR b.key = $2) AND b.worker IN (SELECT id FROM sluice.workers) ORDER BY b.worker, b.key`
}

function* report(access: Access, limits: Timelines, bucket: StoredBucket, nowUs: number): Reading<BucketReport> {
  const { db, laneKey } = access
  const inList = `FROM sluice.lanes l CROSS JOIN sluice.jobs j WHERE j.lane = coalesce(l.base, l.${laneKey})
    AND j.state = ${STATE.available} AND l.bucket = $1 AND l.state = ${LANE.waiting}`
  const { id, limit, key, policy, state, active } = bucket
  const [waiting] = (yield* get<[number]>(db, `SELECT count(*) ${inList}`, id)) as [number]
  const overrides = overridesOf(limits, limit, key)
  const nextStartUs = nextStartOf(bucket.wakeAtUs, overrides, nowUs)
  const found = { ...shown(bucket, overrides, nowUs), waiting, nextStartUs }
  if (!policy || waiting === 0) return found
  const weights = `SELECT avg(units)::float8, min(units), max(units), min(given), max(given) FROM
    (SELECT coalesce((j.weights::json ->> (array_position(l.buckets, l.bucket) - 1))::int, 1) AS units,
     coalesce(j.asked, j.priority) AS given ${inList} LIMIT ${WEIGHED_AT_MOST}) s`
  const [mean, least, most, lowest, highest] = (yield* get<WeightsRow>(db, weights, id)) as WeightsRow
  // For jobs of different weights only the units are added up, but permits count jobs.
  const even = least === most || policy.concurrency !== null
  const backlog = even ? { count: waiting, weight: least } : { count: Math.round(waiting * mean), weight: 1 }
  const met = belowHeadroom({ policy, state }, lowest, highest)
  return { ...found, drainedUs: expectedStartUs(met.policy, met.state, active, nowUs, backlog) }
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
  return { limit, key, available, debt, capacity, active, ...idle, ...headroom, ...(guard && { guard }), overrides }
}

function nextStartOf(wakeAtUs: number | null, overrides: readonly Override[], nowUs: number): number | null {
  if (wakeAtUs === null) return null
  if (isPaused(overrides)) return pausedUntilUs(overrides)
  return wakeAtUs === NEVER_US ? null : Math.max(wakeAtUs, nowUs)
}
