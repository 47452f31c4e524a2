import { NEVER_US } from '../../policy/admission/lane.ts'
import { keptBack } from '../../policy/limits/headroom.ts'
import { outsideUntil } from '../../policy/limits/guarantee.ts'
import { guardInForce } from '../../policy/limits/limit.ts'
import { type Explanation, firstOf, type WorkerWait } from '../contract/waits.ts'
import { get } from './get.ts'
import { loadBuckets } from './buckets.ts'
import { column, columns } from './columns.ts'
import type { Override } from '../contract/limits.ts'
import { isPaused, overridesOf, pausedUntilUs } from './overrides.ts'
import { bucketsOfQueue, heldAsWhole, LIMITED, type LimitedQueue } from './queue-limits.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, get as first, now } from './sql.ts'
import { LANE, STATE } from './state.ts'
import { atEndOfOverride, type StoredBucket } from './stored-bucket.ts'
import { needsIn, selectNeeds, usesOfJob } from './stored-jobs.ts'
import { type Outlook, outlookOfLane, outlookOfWaitList, type WaitingJob } from './wait-place.ts'
import { staffOf } from './workers.ts'

/** The state of a job `j` and its lane `l`. The lane's columns are null for a job without limits. */
const WAIT = columns({
  lane: column<number | null>('l.id'),
  laneState: column<number | null>('l.state'),
  /** The bucket in whose wait list the lane stands. */
  bucket: column<number | null>('l.bucket'),
  /** The buckets of the lane, in its order. */
  buckets: column<string | null>('array_to_json(l.buckets)::text'),
  share: column<number | null>('l.share'),
  state: column<number>('j.state'),
  /** Its level, by which its lane orders it. */
  priority: column<number>('j.priority'),
  weights: column<string | null>('j.weights'),
  attempt: column<number>('j.attempt'),
  sinceUs: column<number>('j.since'),
  due: column<number | null>('j.due'),
  uniqueKey: column<string | null>('j.unique_key'),
  /** It waits for an engine that resolves its limits. */
  unresolved: column<boolean | number>(`substr(j.lane, 1, 1) = '?'`),
})
// Two ranges instead of an OR, since an OR would use only the lane of the index.
const AHEAD = `SELECT (SELECT count(*) FROM sluice.jobs a WHERE a.lane = j.lane AND a.state = 1 AND a.priority > $2)
  + (SELECT count(*) FROM sluice.jobs a WHERE a.lane = j.lane AND a.state = 1 AND a.priority = $2 AND a.seq < $1)
  FROM sluice.jobs j WHERE j.seq = $1`
const MAX_PRIORITY = 100
const NO_WAIT = { waitsOn: null, headroom: null, position: null, linePosition: null, overrides: [], untilUs: null }

/** Explains why a job waits: its lane's bucket, its place, and its possible start. */
export function* explain(access: Access, id: string): Reading<Explanation | null> {
  const { db, laneKey } = access
  const instant = yield* now(access)
  const { nowUs } = instant
  const limits = yield* ask(() => access.limits())
  const job = yield* get(access, id)
  if (!job) return null
  const sql = `SELECT ${WAIT.list}, ${selectNeeds(access)} FROM sluice.jobs j LEFT JOIN sluice.lanes l ON l.${laneKey} = j.lane WHERE j.seq = $1`
  const row = (yield* first(db, sql, job.seq)) as readonly unknown[]
  const { lane, laneState, share, state, priority, weights, attempt, sinceUs, due, uniqueKey, unresolved, ...stored } =
    WAIT.read(row)
  const needs = needsIn(row)
  const ids = JSON.parse(stored.buckets ?? '[]') as number[]
  const found = yield* loadBuckets(access, limits, instant, 'b.id = ANY ($1::bigint[])', ids)
  const buckets = ids.flatMap((bucket) => found.find((each) => each.id === bucket) ?? [])
  const uses = usesOfJob(needs, buckets, weights) ?? buckets.map(({ limit, key }) => ({ limit, key, weight: 1 }))
  const staff = yield* staffOf(access, job.queue, job.task, nowUs)
  const own = { job, uses, uniqueKey, fairKey: needs[1], share: share ?? 1, sinceUs }
  const idle = { ...own, ...NO_WAIT, exact: false, ...staff }
  // A job that a limit has rescheduled is shown as scheduled, and waits in its lane.
  if (state !== STATE.available) {
    const isHeld = job.state === 'active' && job.startedUs !== null && job.startedUs > nowUs
    const dueUs = job.state === 'scheduled' || job.state === 'retryable' ? job.dueUs : null
    const expectedStartUs = isHeld ? job.startedUs : dueUs
    return { ...idle, expectedStartUs, givenUpAtUs: null }
  }
  if (unresolved) return { ...idle, unresolved: true, expectedStartUs: null, givenUpAtUs: due }
  const ahead = ((yield* first<[number]>(db, AHEAD, job.seq, priority)) as [number])[0]
  const waits = { ...idle, position: ahead + 1, untilUs: job.throttledUntilUs, givenUpAtUs: due }
  const limited = yield* all<LimitedQueue>(db, LIMITED)
  const pauses = pausesOf(limits, [...buckets, ...bucketsOfQueue(limited, job.queue)])
  if (lane !== null && laneState === LANE.spread) {
    const eachWorker = yield* waitsOfWorkers(access, lane, nowUs)
    const { waitsOn, untilUs } = firstOf(eachWorker)
    return { ...waits, eachWorker, waitsOn, ...changesAt(limits, waitsOn, pauses, untilUs), expectedStartUs: null }
  }
  const waiting = { lane: lane ?? 0, priority, given: job.priority, ahead }
  const costs = buckets.map((bucket, i) =>
    attempt > 0 && bucket.policy?.retries === 'free' ? 0 : (uses[i]?.weight ?? 1),
  )
  const outlooks = yield* outlooksOf(access, waiting, buckets, costs, nowUs)
  const bucket = laneState === LANE.waiting ? buckets.find((each) => each.id === stored.bucket) : undefined
  const guard = bucket?.policy && guardInForce(bucket.policy)
  const backend = bucket?.policy?.backend
  const pausesEndUs = isPaused(pauses) ? (pausedUntilUs(pauses) ?? Infinity) : 0
  const expectedStartUs = latest(outlooks, pausesEndUs)
  const only = outlooks.length === 1 ? outlooks[0] : undefined
  const changes = changesAt(limits, bucket ?? null, pauses, atEndOfOverride(waits.untilUs, bucket ?? {}))
  // A job that its budget would admit now waits for a free slot, and the length of that wait is unknown.
  const isExact =
    backend === undefined &&
    !buckets[0]?.policy?.reserve &&
    only?.exact === true &&
    staff.served &&
    staff.known &&
    !changesBefore(expectedStartUs, changes.overrides, pausesEndUs) &&
    (expectedStartUs ?? 0) > nowUs
  return {
    ...waits,
    ...changes,
    waitsOn: bucket ? { limit: bucket.limit, key: bucket.key, ...(backend !== undefined && { backend }) } : null,
    ...(guard && { guard }),
    ...(bucket && guaranteeOf(bucket, buckets, costs, nowUs)),
    headroom: bucket?.policy && keptBack(bucket.policy, job.priority) > 0 ? (bucket.policy.headroom ?? null) : null,
    linePosition: only?.place ?? null,
    expectedStartUs,
    exact: isExact && !heldAsWhole(limited, job.queue, buckets),
  }
}

/** The outlook of a job in each bucket, with its cost there. */
function* outlooksOf(
  access: Access,
  waiting: Omit<WaitingJob, 'units'>,
  buckets: readonly StoredBucket[],
  costs: readonly number[],
  nowUs: number,
): Reading<Outlook[]> {
  const outlooks: Outlook[] = []
  for (const [i, each] of buckets.entries()) {
    const isAssured = each.policy !== null && guaranteeOf(each, buckets, costs, nowUs) !== null
    // A start within a guarantee may take the units that others must leave.
    const bucket = isAssured && each.policy ? { ...each, policy: { ...each.policy, reserve: 0 } } : each
    const job = { ...waiting, units: costs[i] ?? 1, ...(isAssured && { given: MAX_PRIORITY }) }
    const outlook =
      buckets.length === 1
        ? yield* outlookOfWaitList(access, job, bucket, nowUs)
        : yield* outlookOfLane(access, job, bucket, i, nowUs)
    outlooks.push({ ...outlook, startUs: atEndOfOverride(outlook.startUs, each) })
  }
  return outlooks
}

/** The bucket that guarantees a job a share of a common one first, and from when on; null: none does. */
function guaranteeOf(
  common: StoredBucket,
  buckets: readonly StoredBucket[],
  costs: readonly number[],
  nowUs: number,
): Pick<Explanation, 'guarantee'> | null {
  let first: NonNullable<Explanation['guarantee']> | null = null
  for (const [i, { limit, key, state, active, policy }] of buckets.entries()) {
    if (policy?.of?.limit !== common.limit) continue
    const fromUs = outsideUntil(policy.of, state, active, nowUs, costs[i] ?? 1) ?? nowUs
    if (first && fromUs >= (first.fromUs ?? Infinity)) continue
    first = { limit, key, fromUs: fromUs === Infinity ? null : fromUs }
  }
  return first && { guarantee: first }
}

/** Whether a pause or the end of an override changes the budget before a start. */
function changesBefore(startUs: number | null, overrides: readonly Override[], pausesEndUs: number): boolean {
  if (pausesEndUs > 0) return true
  return overrides.some(({ untilUs }) => untilUs !== null && (startUs === null || untilUs <= startUs))
}

interface Bucket {
  readonly limit: string
  readonly key: string
}

type Limits = Parameters<typeof overridesOf>[0]

/** The pauses in force for these buckets, each once. They also stop starts under a limit in shadow mode. */
function pausesOf(limits: Limits, buckets: readonly Bucket[]): Override[] {
  const found = new Map<string, Override>()
  for (const { limit, key } of buckets)
    for (const each of overridesOf(limits, limit, key))
      if (each.kind === 'pause') found.set(JSON.stringify([limit, each.key]), each)
  return [...found.values()]
}

/** The overrides and pauses of the bucket that a job waits for, the other pauses, and until when it waits there. */
function changesAt(
  limits: Limits,
  waitsOn: Bucket | null,
  pauses: readonly Override[],
  untilUs: number | null,
): Pick<Explanation, 'overrides' | 'untilUs'> {
  const own = waitsOn ? overridesOf(limits, waitsOn.limit, waitsOn.key) : []
  const others = pauses.filter(({ limit, key }) => !own.some((each) => each.limit === limit && each.key === key))
  return { overrides: [...own, ...others], untilUs: isPaused(own) ? pausedUntilUs(own) : untilUs }
}

/**
 * Every bucket must admit a job, so the last one decides, and no pause may be left. Null: a permit has to return first,
 * or a pause has no end.
 */
function latest(outlooks: readonly Outlook[], pausesEndUs: number): number | null {
  let latestUs: number | null = null
  for (const { startUs } of outlooks) {
    if (startUs === null || pausesEndUs === Infinity) return null
    latestUs = Math.max(latestUs ?? pausesEndUs, startUs)
  }
  return latestUs
}

type WaitThere = readonly [worker: number, limit: string | null, key: string | null, wakeAt: number | null]

/** The wait of a spread lane at each worker, by worker. */
function* waitsOfWorkers({ db, laneKey, limitName }: Access, lane: number, nowUs: number): Reading<WorkerWait[]> {
  const rows = yield* all<WaitThere>(
    db,
    `SELECT l.worker, b.limit_name, b.key, b.wake_at FROM sluice.lanes l LEFT JOIN sluice.buckets b ON b.id = l.bucket
     WHERE l.base = (SELECT ${laneKey} FROM sluice.lanes WHERE id = $1)
     AND l.worker IN (SELECT id FROM sluice.workers WHERE alive_until > $2) ORDER BY l.worker`,
    lane,
    nowUs,
  )
  return rows.map(([worker, limit, key, wakeAt]) => ({
    worker,
    waitsOn: limit === null || key === null ? null : { limit: limitName(limit), key },
    untilUs: wakeAt === null || wakeAt === NEVER_US ? null : Math.max(wakeAt, nowUs),
  }))
}
