import { view } from '../../policy/bucket.ts'
import { expectedStartUs } from '../../policy/forecast.ts'
import { NEVER_US } from '../../policy/lane.ts'
import type { BucketReport, BucketUse, Explanation } from '../store.ts'
import { bucketsOf, findBucket, loadBucket, type StoredBucket } from './buckets.ts'
import type { Context } from './context.ts'
import { get } from './get.ts'

/** The buckets of a limit, or the one of a key, as they stand now. */
export function inspect(context: Context, limit: string, key?: string): BucketReport[] {
  context.policies.refresh()
  const nowUs = context.clock.nowUs()
  const policy = context.policies.current(limit)?.policy
  if (!policy) return []
  if (key === undefined) return bucketsOf(context, limit, nowUs).map((bucket) => report(context, bucket, nowUs))
  const bucket = findBucket(context, limit, key, nowUs)
  if (bucket) return [report(context, bucket, nowUs)]
  const state = context.policies.carry(limit, null, 0, nowUs)
  if (!state) return []
  const { available, debt, capacity } = view(policy, state, 0, nowUs)
  return [{ limit, key, available, debt, capacity, active: 0, waiting: 0, nextStartUs: null, drainedUs: null }]
}

function report(context: Context, bucket: StoredBucket, nowUs: number): BucketReport {
  const { limit, key, policy, state, active, wakeAtUs } = bucket
  const [waiting] = context.db.get<[number]>(
    'SELECT count(*) FROM lanes l JOIN jobs j ON j.lane = l.id AND j.state = 1 WHERE l.bucket = ? AND l.state = 2',
    bucket.id,
  ) as [number]
  const nextStartUs = wakeAtUs === null || wakeAtUs === NEVER_US ? null : Math.max(wakeAtUs, nowUs)
  const seen = policy ? view(policy, state, active, nowUs) : { available: 0, debt: 0, capacity: 0 }
  const drainedUs =
    policy && waiting > 0 ? expectedStartUs(policy, state, active, nowUs, { count: waiting, weight: 1 }) : null
  return {
    limit,
    key,
    available: seen.available,
    debt: seen.debt,
    capacity: seen.capacity,
    active,
    waiting,
    nextStartUs,
    drainedUs,
  }
}

/** Why a job waits: the line that its lane stands in, its place, and when it may start. */
export function explain(context: Context, id: string): Explanation | null {
  context.policies.refresh()
  const nowUs = context.clock.nowUs()
  const job = get(context, id)
  if (!job) return null
  const [lane, weights, sinceUs] = context.db.get<[number, string | null, number]>(
    'SELECT lane, weights, since FROM jobs WHERE seq = ?',
    job.seq,
  ) as [number, string | null, number]
  const buckets = lane < 0 ? [] : bucketsOfLane(context, lane, nowUs)
  const units = weights === null ? null : (JSON.parse(weights) as number[])
  const uses: BucketUse[] = buckets.map(({ limit, key }, i) => ({ limit, key, weight: units?.[i] ?? 1 }))
  const free = {
    job,
    uses,
    waitsOn: null,
    position: null,
    sinceUs: null,
    untilUs: null,
    expectedStartUs: null,
    exact: false,
  }
  if (job.state !== 'available') return free
  const [ahead] = context.db.get<[number]>(
    'SELECT count(*) FROM jobs WHERE lane = ? AND state = 1 AND (priority > ? OR (priority = ? AND seq < ?))',
    lane,
    job.priority,
    job.priority,
    job.seq,
  ) as [number]
  const on =
    lane < 0
      ? undefined
      : context.db.get<[number | null]>('SELECT bucket FROM lanes WHERE id = ? AND state = 2', lane)?.[0]
  const bucket = buckets.find((each) => each.id === on)
  if (!bucket) return { ...free, position: ahead + 1, sinceUs }
  return {
    ...free,
    position: ahead + 1,
    sinceUs,
    waitsOn: { limit: bucket.limit, key: bucket.key },
    ...forecastFor(context, bucket, buckets, lane, job, nowUs),
  }
}

function forecastFor(
  context: Context,
  bucket: StoredBucket,
  buckets: readonly StoredBucket[],
  lane: number,
  job: { priority: number; seq: number },
  nowUs: number,
): Pick<Explanation, 'untilUs' | 'expectedStartUs' | 'exact'> {
  const untilUs = bucket.wakeAtUs === null || bucket.wakeAtUs === NEVER_US ? null : Math.max(bucket.wakeAtUs, nowUs)
  const at = buckets.indexOf(bucket)
  const line = context.db
    .all<[string | null]>(
      'SELECT weights FROM jobs WHERE lane = ? AND state = 1 AND (priority > ? OR (priority = ? AND seq <= ?)) ORDER BY priority DESC, seq',
      lane,
      job.priority,
      job.priority,
      job.seq,
    )
    .map(([text]) => (text === null ? 1 : ((JSON.parse(text) as number[])[at] ?? 1)))
  const expected = bucket.policy ? expectedStartUs(bucket.policy, bucket.state, bucket.active, nowUs, line) : null
  const [lanes] = context.db.get<[number]>('SELECT count(*) FROM lanes WHERE bucket = ? AND state = 2', bucket.id) as [
    number,
  ]
  return { untilUs, expectedStartUs: expected, exact: expected !== null && lanes === 1 && buckets.length === 1 }
}

function bucketsOfLane(context: Context, lane: number, nowUs: number): StoredBucket[] {
  const text = context.db.get<[string]>('SELECT buckets FROM lanes WHERE id = ?', lane)?.[0]
  return text === undefined ? [] : (JSON.parse(text) as number[]).map((id) => loadBucket(context, id, nowUs))
}
