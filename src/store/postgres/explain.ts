import type { Statements } from '../../database/postgres.ts'
import { keptBack } from '../../policy/limits/headroom.ts'
import { weightsOf } from '../shared/set-aside.ts'
import type { BucketUse } from '../contract/store.ts'
import { type Explanation, firstOf } from '../contract/waits.ts'
import type { Instant } from '../shared/series.ts'
import type { Timelines } from '../shared/timelines.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import { loadBuckets } from './buckets.ts'
import { type Context, readClock } from './context.ts'
import { get } from './get.ts'
import { type Outlook, outlookOfLane, outlookOfLine, type WaitingJob } from './line-place.ts'
import { currentLimits } from './limit-timelines.ts'
import { LANE, STATE } from '../shared/state.ts'
import { isKnown, liveQueues } from './workers.ts'
import { heldAsWhole, type LimitedQueue } from '../shared/queue-limits.ts'
import { isUnresolved } from './unresolved.ts'
import { waitsOfWorkers } from './views.ts'
import { isPaused, overridesOf, pausedUntilUs } from './override.ts'

type Row = [
  lane: number | null,
  priority: number,
  weights: string | null,
  sinceUs: number,
  attempt: number,
  due: number | null,
  on: number | null,
  key: string,
  fair: string | null,
  share: number | null,
  state: number,
  laneState: number | null,
]

/** Why a job waits: the line that its lane stands in, its place, and when it may start. */
export async function explain(context: Context, db: Statements, id: string): Promise<Explanation | null> {
  const instant = await readClock(context, db)
  const { nowUs } = instant
  const limits = await currentLimits(context, db)
  const job = await get(db, id)
  if (!job) return null
  const [lane, priority, weights, sinceUs, attempt, due, on, laneKey, fairKey, share, state, laneState] =
    (await db.get<Row>(
      `SELECT l.id, j.priority, j.weights, j.since, j.attempt, j.due, CASE WHEN l.state = ${LANE.waiting} THEN l.bucket END, j.lane, j.fair, l.share, j.state, l.state
     FROM sluice.jobs j LEFT JOIN sluice.lanes l ON l.key = j.lane WHERE j.seq = $1`,
      job.seq,
    )) as Row
  const buckets = lane === null ? [] : await bucketsOfLane(db, limits, instant, lane)
  const units = weights === null ? null : weightsOf(weights)
  const uses: BucketUse[] = buckets.map(({ limit, key }, i) => ({ limit, key, weight: units?.[i] ?? 1 }))
  const served = (await liveQueues(db, nowUs)).includes(job.queue)
  const known = await isKnown(db, nowUs, job.queue, job.task)
  const idle = {
    job,
    uses,
    waitsOn: null,
    position: null,
    linePosition: null,
    sinceUs,
    fairKey,
    share: share ?? 1,
    headroom: null,
    overrides: [],
    untilUs: null,
    exact: false,
    served,
    known,
  }
  // One that a limit has put off is shown as scheduled, and waits in its lane.
  if (state !== STATE.available) {
    const expectedStartUs = job.state === 'scheduled' || job.state === 'retryable' ? job.dueUs : null
    return { ...idle, expectedStartUs, givenUpAtUs: null }
  }
  if (isUnresolved(laneKey)) return { ...idle, unresolved: true, expectedStartUs: null, givenUpAtUs: due }
  const ahead = await countAhead(db, laneKey, job.seq, priority)
  const waits = { ...idle, position: ahead + 1, untilUs: job.throttledUntilUs, givenUpAtUs: due }
  const eachWorker = laneState === LANE.spread ? await waitsOfWorkers(db, laneKey, nowUs) : null
  if (eachWorker) return { ...waits, eachWorker, ...firstOf(eachWorker), expectedStartUs: null }
  const costs = buckets.map((bucket, i) => (attempt > 0 && bucket.policy?.retries === 'free' ? 0 : (units?.[i] ?? 1)))
  const asked = { lane: lane ?? 0, priority, given: job.priority, ahead }
  const outlooks = await outlooksOf(db, asked, buckets, costs, nowUs)
  const bucket = buckets.find((each) => each.id === on)
  const expectedStartUs = latest(outlooks)
  const [only] = outlooks
  const overrides = bucket ? overridesOf(limits, bucket.limit, bucket.key) : []
  const changes = overrides.some(
    ({ untilUs }) => untilUs !== null && (expectedStartUs === null || untilUs < expectedStartUs),
  )
  // What its budget would let start now waits for a free slot, and nobody can tell for how long.
  const isExact =
    buckets.length === 1 && only?.exact === true && served && known && !changes && (expectedStartUs ?? 0) > nowUs
  return {
    ...waits,
    untilUs: isPaused(overrides) ? pausedUntilUs(overrides) : waits.untilUs,
    overrides,
    headroom: bucket?.policy && keptBack(bucket.policy, job.priority) > 0 ? (bucket.policy.headroom ?? null) : null,
    waitsOn: bucket ? { limit: bucket.limit, key: bucket.key } : null,
    linePosition: buckets.length === 1 ? (only?.place ?? null) : null,
    expectedStartUs,
    exact: isExact && !heldAsWhole(await limitedQueues(db), job.queue, buckets),
  }
}

function limitedQueues(db: Statements): Promise<LimitedQueue[]> {
  return db.all<[...LimitedQueue]>(
    `SELECT name, limits, limit_name FROM sluice.queues WHERE limit_name IS NOT NULL OR limits <> '[]'`,
  )
}

/** What each bucket says of a job, which costs so many units there. */
async function outlooksOf(
  db: Statements,
  asked: Omit<WaitingJob, 'units'>,
  buckets: readonly StoredBucket[],
  costs: readonly number[],
  nowUs: number,
): Promise<Outlook[]> {
  const outlooks: Outlook[] = []
  for (const [i, bucket] of buckets.entries()) {
    const job = { ...asked, units: costs[i] ?? 1 }
    outlooks.push(
      buckets.length === 1
        ? await outlookOfLine(db, job, bucket, nowUs)
        : await outlookOfLane(db, job, bucket, i, nowUs),
    )
  }
  return outlooks
}

/** Every bucket must admit a job, so the last of them to do so decides; null when that hangs on a permit. */
function latest(outlooks: readonly Outlook[]): number | null {
  let latestUs: number | null = null
  for (const { startUs } of outlooks) {
    if (startUs === null) return null
    latestUs = Math.max(latestUs ?? 0, startUs)
  }
  return latestUs
}

async function countAhead(db: Statements, lane: string, seq: number, priority: number): Promise<number> {
  // Two ranges and not a disjunction, of which only the lane would be looked up.
  const [count] = (await db.get<[number]>(
    `SELECT (SELECT count(*) FROM sluice.jobs WHERE lane = $1 AND state = 1 AND priority > $2)
     + (SELECT count(*) FROM sluice.jobs WHERE lane = $1 AND state = 1 AND priority = $2 AND seq < $3)`,
    lane,
    priority,
    seq,
  )) as [number]
  return count
}

/** The buckets of a lane, in its order. */
async function bucketsOfLane(
  db: Statements,
  limits: Timelines,
  instant: Instant,
  lane: number,
): Promise<StoredBucket[]> {
  const [ids] = (await db.get<[number[]]>('SELECT buckets FROM sluice.lanes WHERE id = $1', lane)) ?? [[]]
  const found = await loadBuckets(db, limits, instant, 'b.id = ANY ($1::bigint[])', ids)
  return ids.flatMap((id) => found.find((bucket) => bucket.id === id) ?? [])
}
