import { type Backlog, expectedStartUs } from '../../policy/forecast.ts'
import type { BucketUse, Explanation } from '../store.ts'
import { loadBucket, type StoredBucket } from './buckets.ts'
import type { Context } from './context.ts'
import { get } from './get.ts'
import { isPaused, overridesOf, pausedUntilUs } from './override.ts'

/** A waiting job's place: its lane, and what stands before it there. */
interface Place {
  readonly lane: number
  readonly seq: number
  readonly priority: number
}

const AHEAD = 'lane = ? AND state = 1 AND (priority > ? OR (priority = ? AND seq < ?))'

/** Why a job waits: the line that its lane stands in, its place, and when it may start. */
export function explain(context: Context, id: string): Explanation | null {
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
    overrides: [],
    expectedStartUs: null,
    exact: false,
  }
  if (job.state !== 'available') return { ...free, untilUs: null }
  const place = { lane, seq: job.seq, priority: job.priority }
  const ahead = countAhead(context, place)
  const waits = { ...free, position: ahead + 1, sinceUs, untilUs: job.throttledUntilUs }
  const on = context.db.get<[number | null]>('SELECT bucket FROM lanes WHERE id = ? AND state = 2', lane)?.[0]
  const at = buckets.findIndex((each) => each.id === on)
  const bucket = buckets[at]
  if (!bucket) return waits
  const line = lineOf(context, place, at, ahead)
  const expected = bucket.policy ? expectedStartUs(bucket.policy, bucket.state, bucket.active, nowUs, line) : null
  const alone =
    buckets.length === 1 &&
    context.db.all('SELECT 1 FROM lanes WHERE bucket = ? AND state = 2 LIMIT 2', bucket.id).length === 1
  const waitsOn = { limit: bucket.limit, key: bucket.key }
  const overrides = overridesOf(context, bucket.limit, bucket.key)
  const untilUs = isPaused(overrides) ? pausedUntilUs(overrides) : waits.untilUs
  const changes = overrides.some(({ untilUs }) => untilUs !== null && (expected === null || untilUs < expected))
  return {
    ...waits,
    untilUs,
    waitsOn,
    overrides,
    expectedStartUs: expected,
    exact: expected !== null && alone && !changes,
  }
}

function countAhead(context: Context, { lane, seq, priority }: Place): number {
  return (
    context.db.get<[number]>(`SELECT count(*) FROM jobs WHERE ${AHEAD}`, lane, priority, priority, seq) as [number]
  )[0]
}

/** The weights up to and with the job; where all are one, their number says it, however many they are. */
function lineOf(context: Context, { lane, seq, priority }: Place, at: number, ahead: number): number[] | Backlog {
  const weighted = context.db.get(
    `SELECT 1 FROM jobs WHERE ${AHEAD} AND weights IS NOT NULL LIMIT 1`,
    lane,
    priority,
    priority,
    seq + 1,
  )
  if (!weighted) return { count: ahead + 1, weight: 1 }
  return context.db
    .all<[string | null]>(
      `SELECT weights FROM jobs WHERE ${AHEAD} ORDER BY priority DESC, seq`,
      lane,
      priority,
      priority,
      seq + 1,
    )
    .map(([text]) => (text === null ? 1 : ((JSON.parse(text) as number[])[at] ?? 1)))
}

function bucketsOfLane(context: Context, lane: number, nowUs: number): StoredBucket[] {
  const text = context.db.get<[string]>('SELECT buckets FROM lanes WHERE id = ?', lane)?.[0]
  return text === undefined ? [] : (JSON.parse(text) as number[]).map((id) => loadBucket(context, id, nowUs))
}
