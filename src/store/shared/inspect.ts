import { NEVER_US } from '../../policy/admission/lane.ts'
import { type BucketState, view } from '../../policy/limits/bucket.ts'
import { belowHeadroom } from '../../policy/limits/headroom.ts'
import { guardInForce, type LimitPolicy } from '../../policy/limits/limit.ts'
import { expectedStartUs } from '../../policy/limits/start-time.ts'
import type { Override } from '../contract/limits.ts'
import type { BucketReport } from '../contract/store.ts'
import { isPaused, overridesOf, pausedUntilUs } from './overrides.ts'
import { type Answer, ask, type Reading } from './reading.ts'
import type { StoredBucket } from './stored-bucket.ts'
import type { Timelines } from './timelines.ts'

/** The weights and the given priorities of the jobs in a bucket's wait list. */
export type WeightsRow = readonly [mean: number, least: number, most: number, lowest: number, highest: number]

/** The queries that the report of a limit needs. */
export interface InspectQueries {
  readonly limits: Pick<Timelines, 'timeline'>
  readonly nowUs: number
  /** The fleet's buckets by key, or each live worker's own by worker; of one key or of all. */
  buckets(own: boolean): Answer<readonly StoredBucket[]>
  /** Jobs in the bucket's wait list. */
  waiting(bucket: number): Answer<number>
  /** @param atMost bounds the sample of a deep backlog, since reading all of it would cost too much */
  weights(bucket: number, atMost: number): Answer<WeightsRow>
}

const WEIGHED_AT_MOST = 10_000

/** Reports the buckets of a limit, or the one of a key, in their present state. */
export function* inspection(queries: InspectQueries, limit: string, key?: string): Reading<BucketReport[]> {
  const { limits, nowUs } = queries
  const timeline = limits.timeline(limit)
  if (!timeline.definition) return []
  const own = timeline.definition.policy.scope === 'worker'
  const reports: BucketReport[] = []
  for (const bucket of yield* ask(() => queries.buckets(own)))
    reports.push({ ...(yield* report(queries, bucket)), ...(own && { worker: bucket.worker }) })
  if (key === undefined || reports.length > 0) return reports
  // No start has used the key: the report shows a new bucket.
  const { policy } = timeline.at(key)
  const state = timeline.carry(key, null, 0, nowUs)
  if (!policy || !state) return []
  const unused = { limit, key, policy, state, active: 0 }
  return [{ ...shown(unused, overridesOf(limits, limit, key), nowUs), ...(own && { worker: null }) }]
}

function* report(queries: InspectQueries, bucket: StoredBucket): Reading<BucketReport> {
  const { limits, nowUs } = queries
  const { id, limit, key, policy, state, active } = bucket
  const waiting = yield* ask(() => queries.waiting(id))
  const overrides = overridesOf(limits, limit, key)
  const nextStartUs = nextStartOf(bucket.wakeAtUs, overrides, nowUs)
  const found = { ...shown(bucket, overrides, nowUs), waiting, nextStartUs }
  if (!policy || waiting === 0) return found
  const [mean, least, most, lowest, highest] = yield* ask(() => queries.weights(id, WEIGHED_AT_MOST))
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
