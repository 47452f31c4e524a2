import { keptBack } from '../../policy/limits/headroom.ts'
import { weightsOf } from '../shared/set-aside.ts'
import type { JobRecord } from '../../jobs/job.ts'
import type { BucketUse } from '../contract/store.ts'
import { type Explanation, firstOf } from '../contract/waits.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import { loadBucket } from './buckets.ts'
import type { Context } from './context.ts'
import { get } from './get.ts'
import { type Outlook, outlookOfLane, outlookOfLine } from './line-place.ts'
import { LANE, STATE } from '../shared/state.ts'
import { waitsOfWorkers } from './views.ts'
import { knowsTask, liveQueues, liveWorkers } from './workers.ts'
import { heldAsWhole, type LimitedQueue } from '../shared/queue-limits.ts'
import { isPaused, overridesOf, pausedUntilUs } from './override.ts'

type Row = [
  lane: number,
  priority: number,
  weights: string | null,
  sinceUs: number,
  attempt: number,
  due: number | null,
  state: number,
]

/** Why a job waits: the line that its lane stands in, its place, and when it may start. */
export function explain(context: Context, id: string): Explanation | null {
  const nowUs = context.clock.nowUs()
  const job = get(context, id)
  if (!job) return null
  const [lane, priority, weights, sinceUs, attempt, due, state] = context.db.get<Row>(
    'SELECT lane, priority, weights, since, attempt, due, state FROM jobs WHERE seq = ?',
    job.seq,
  ) as Row
  const buckets = lane < 0 ? [] : bucketsOfLane(context, lane, nowUs)
  const units = weights === null ? null : weightsOf(weights)
  const uses: BucketUse[] = buckets.map(({ limit, key }, i) => ({ limit, key, weight: units?.[i] ?? 1 }))
  const staff = staffOf(context, job, nowUs)
  const [fairKey, share] = fairnessOf(context, lane)
  const idle = {
    job,
    uses,
    fairKey,
    share,
    waitsOn: null,
    headroom: null,
    position: null,
    linePosition: null,
    sinceUs,
    overrides: [],
    untilUs: null,
    exact: false,
    ...staff,
  }
  // One that a limit has put off is shown as scheduled, and waits in its lane.
  if (state !== STATE.available) {
    const expectedStartUs = job.state === 'scheduled' || job.state === 'retryable' ? job.dueUs : null
    return { ...idle, expectedStartUs, givenUpAtUs: null }
  }
  const ahead = countAhead(context, lane, job.seq, priority)
  const waits = { ...idle, position: ahead + 1, untilUs: job.throttledUntilUs, givenUpAtUs: due }
  const eachWorker = waitsOfWorkers(context, lane, nowUs)
  if (eachWorker) return { ...waits, eachWorker, ...firstOf(eachWorker), expectedStartUs: null }
  const costs = buckets.map((bucket, i) => (attempt > 0 && bucket.policy?.retries === 'free' ? 0 : (units?.[i] ?? 1)))
  const outlooks = buckets.map((bucket, i) => {
    const asked = { lane, priority, given: job.priority, ahead, units: costs[i] ?? 1 }
    return buckets.length === 1
      ? outlookOfLine(context, asked, bucket, nowUs)
      : outlookOfLane(context, asked, bucket, i, nowUs)
  })
  const on = context.db.get<[number | null]>(`SELECT bucket FROM lanes WHERE id = ? AND state = ${LANE.waiting}`, lane)
  const bucket = buckets.find((each) => each.id === on?.[0])
  const expectedStartUs = latest(outlooks)
  const [only] = outlooks
  const overrides = bucket ? overridesOf(context, bucket.limit, bucket.key) : []
  const changes = endsBefore(overrides, expectedStartUs)
  // What its budget would let start now waits for a free slot, and nobody can tell for how long.
  const isExact =
    buckets.length === 1 &&
    only?.exact === true &&
    staff.served &&
    staff.known &&
    !changes &&
    (expectedStartUs ?? 0) > nowUs
  return {
    ...waits,
    untilUs: isPaused(overrides) ? pausedUntilUs(overrides) : waits.untilUs,
    overrides,
    waitsOn: bucket ? { limit: bucket.limit, key: bucket.key } : null,
    headroom: bucket?.policy && keptBack(bucket.policy, job.priority) > 0 ? (bucket.policy.headroom ?? null) : null,
    linePosition: buckets.length === 1 ? (only?.place ?? null) : null,
    expectedStartUs,
    exact: isExact && !heldAsWhole(limitedQueues(context), job.queue, buckets),
  }
}

function limitedQueues({ db }: Context): LimitedQueue[] {
  return db.all<[...LimitedQueue]>(
    `SELECT name, limits, limit_name FROM queues WHERE limit_name IS NOT NULL OR limits <> '[]'`,
  )
}

/** The fair key of a lane, and its share. */
function fairnessOf(context: Context, lane: number): readonly [fairKey: string | null, share: number] {
  const row = context.db.get<[string | null, number]>('SELECT fair, share FROM lanes WHERE id = ?', lane)
  return row ?? [null, 1]
}

function endsBefore(overrides: Explanation['overrides'], startUs: number | null): boolean {
  return overrides.some(({ untilUs }) => untilUs !== null && (startUs === null || untilUs < startUs))
}

/** Who is at work for a job. */
function staffOf(context: Context, { queue, task }: JobRecord, nowUs: number): Pick<Explanation, 'served' | 'known'> {
  const served = liveQueues(context, nowUs, 0).includes(queue)
  return { served, known: knowsTask(liveWorkers(context, nowUs, 0), queue, task) }
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

function countAhead(context: Context, lane: number, seq: number, priority: number): number {
  // Two ranges and not a disjunction, of which only the lane would be looked up.
  const [higher] = context.db.get<[number]>(
    'SELECT count(*) FROM jobs WHERE lane = ? AND state = 1 AND priority > ?',
    lane,
    priority,
  ) as [number]
  const [earlier] = context.db.get<[number]>(
    'SELECT count(*) FROM jobs WHERE lane = ? AND state = 1 AND priority = ? AND seq < ?',
    lane,
    priority,
    seq,
  ) as [number]
  return higher + earlier
}

function bucketsOfLane(context: Context, lane: number, nowUs: number): StoredBucket[] {
  const text = context.db.get<[string]>('SELECT buckets FROM lanes WHERE id = ?', lane)?.[0]
  return text === undefined ? [] : (JSON.parse(text) as number[]).map((id) => loadBucket(context, id, nowUs))
}
