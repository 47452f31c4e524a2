import { keptBack } from '../../policy/limits/headroom.ts'
import { guardInForce } from '../../policy/limits/limit.ts'
import type { BucketUse } from '../contract/store.ts'
import { type Explanation, firstOf, type WorkerWait } from '../contract/waits.ts'
import { get } from './get.ts'
import { isPaused, overridesOf, pausedUntilUs } from './overrides.ts'
import { heldAsWhole, type LimitedQueue } from './queue-limits.ts'
import { type Answer, ask, type Reading } from './reading.ts'
import { weightsOf } from './set-aside.ts'
import type { Access } from './sql.ts'
import { LANE, STATE } from './state.ts'
import type { StoredBucket } from './stored-bucket.ts'
import type { Timelines } from './timelines.ts'
import { type Outlook, outlookOfLane, outlookOfWaitList, type PlaceQueries, type WaitingJob } from './wait-place.ts'
import { staffOf } from './workers.ts'

/** The state of a job and its lane. The lane's columns are null for a job without limits. */
export type WaitRow = readonly [
  lane: number | null,
  laneState: number | null,
  /** The bucket in whose wait list the lane stands. */
  bucket: number | null,
  fairKey: string | null,
  share: number | null,
  state: number,
  /** Its level, by which its lane orders it. */
  priority: number,
  weights: string | null,
  attempt: number,
  sinceUs: number,
  due: number | null,
  /** It waits for an engine that resolves its limits. */
  unresolved: boolean | 0,
]

/** The queries that the explanation of a wait needs. */
export interface ExplainQueries extends PlaceQueries {
  readonly access: Access
  readonly limits: Pick<Timelines, 'timeline'>
  readonly nowUs: number
  wait(seq: number): Answer<WaitRow>
  /** The buckets of a lane, in its order. */
  buckets(lane: number): Answer<StoredBucket[]>
  /** Waiting jobs before this one in its lane. */
  countAhead(seq: number, priority: number): Answer<number>
  /** The wait of the lane at each worker, by worker. */
  workerWaits(lane: number): Answer<WorkerWait[]>
  limitedQueues(): Answer<readonly LimitedQueue[]>
}

/** Explains why a job waits: its lane's bucket, its place, and its possible start. */
export function* explanation(queries: ExplainQueries, id: string): Reading<Explanation | null> {
  const { nowUs } = queries
  const job = yield* get(queries.access, id)
  if (!job) return null
  const row = yield* ask(() => queries.wait(job.seq))
  const [lane, laneState, bucketId, fairKey, share, state, priority, weights, attempt, sinceUs, due, unresolved] = row
  const buckets = lane === null ? [] : yield* ask(() => queries.buckets(lane))
  const units = weights === null ? null : weightsOf(weights)
  const uses: BucketUse[] = buckets.map(({ limit, key }, i) => ({ limit, key, weight: units?.[i] ?? 1 }))
  const staff = yield* staffOf(queries.access, job.queue, job.task, nowUs)
  const waitsOn = { waitsOn: null, headroom: null, position: null, linePosition: null, overrides: [], untilUs: null }
  const idle = { job, uses, fairKey, share: share ?? 1, ...waitsOn, sinceUs, exact: false, ...staff }
  // A job that a limit has rescheduled is shown as scheduled, and waits in its lane.
  if (state !== STATE.available) {
    const isHeld = job.state === 'active' && job.startedUs !== null && job.startedUs > nowUs
    const dueUs = job.state === 'scheduled' || job.state === 'retryable' ? job.dueUs : null
    const expectedStartUs = isHeld ? job.startedUs : dueUs
    return { ...idle, expectedStartUs, givenUpAtUs: null }
  }
  if (unresolved) return { ...idle, unresolved: true, expectedStartUs: null, givenUpAtUs: due }
  const ahead = yield* ask(() => queries.countAhead(job.seq, priority))
  const waits = { ...idle, position: ahead + 1, untilUs: job.throttledUntilUs, givenUpAtUs: due }
  if (lane !== null && laneState === LANE.spread) {
    const eachWorker = yield* ask(() => queries.workerWaits(lane))
    return { ...waits, eachWorker, ...firstOf(eachWorker), expectedStartUs: null }
  }
  const waiting = { lane: lane ?? 0, priority, given: job.priority, ahead }
  const costs = buckets.map((bucket, i) => (attempt > 0 && bucket.policy?.retries === 'free' ? 0 : (units?.[i] ?? 1)))
  const outlooks = yield* outlooksOf(queries, waiting, buckets, costs)
  const bucket = laneState === LANE.waiting ? buckets.find((each) => each.id === bucketId) : undefined
  const guard = bucket?.policy && guardInForce(bucket.policy)
  const expectedStartUs = latest(outlooks)
  const only = outlooks.length === 1 ? outlooks[0] : undefined
  const overrides = bucket ? overridesOf(queries.limits, bucket.limit, bucket.key) : []
  const changes = overrides.some(
    ({ untilUs }) => untilUs !== null && (expectedStartUs === null || untilUs < expectedStartUs),
  )
  // A job that its budget would admit now waits for a free slot, and the length of that wait is unknown.
  const isExact = only?.exact === true && staff.served && staff.known && !changes && (expectedStartUs ?? 0) > nowUs
  return {
    ...waits,
    untilUs: isPaused(overrides) ? pausedUntilUs(overrides) : waits.untilUs,
    overrides,
    waitsOn: bucket ? { limit: bucket.limit, key: bucket.key } : null,
    ...(guard && { guard }),
    headroom: bucket?.policy && keptBack(bucket.policy, job.priority) > 0 ? (bucket.policy.headroom ?? null) : null,
    linePosition: only?.place ?? null,
    expectedStartUs,
    exact: isExact && !heldAsWhole(yield* ask(() => queries.limitedQueues()), job.queue, buckets),
  }
}

/** The outlook of a job in each bucket, with its cost there. */
function* outlooksOf(
  queries: ExplainQueries,
  waiting: Omit<WaitingJob, 'units'>,
  buckets: readonly StoredBucket[],
  costs: readonly number[],
): Reading<Outlook[]> {
  const outlooks: Outlook[] = []
  for (const [i, bucket] of buckets.entries()) {
    const job = { ...waiting, units: costs[i] ?? 1 }
    outlooks.push(
      buckets.length === 1
        ? yield* outlookOfWaitList(queries, job, bucket, queries.nowUs)
        : yield* outlookOfLane(queries, job, bucket, i, queries.nowUs),
    )
  }
  return outlooks
}

/** Every bucket must admit a job, so the last one decides; null: a permit has to return first. */
function latest(outlooks: readonly Outlook[]): number | null {
  let latestUs: number | null = null
  for (const { startUs } of outlooks) {
    if (startUs === null) return null
    latestUs = Math.max(latestUs ?? 0, startUs)
  }
  return latestUs
}
