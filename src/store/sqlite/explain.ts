import type { Explanation } from '../contract/waits.ts'
import { explanation, type WaitRow } from '../shared/explain.ts'
import type { LimitedQueue } from '../shared/queue-limits.ts'
import { readNow } from '../shared/reading.ts'
import { loadBucket } from './buckets.ts'
import type { Context } from './context.ts'
import { get } from './get.ts'
import { accessOf } from './shared-sql.ts'
import { waitsOfWorkers } from './views.ts'
import { placeQueries } from './wait-place.ts'

/** Explains why a job waits. */
export function explain(context: Context, id: string): Explanation | null {
  const { db, policies } = context
  const nowUs = context.clock.nowUs()
  return readNow(
    explanation(
      {
        ...placeQueries(context),
        limits: policies,
        nowUs,
        access: accessOf(context),
        job: (of) => get(context, of),
        wait: (seq) =>
          db.get<[...WaitRow]>(
            `SELECT l.id, l.state, l.bucket, l.fair, l.share,
             j.state, j.priority, j.weights, j.attempt, j.since, j.due, 0
             FROM jobs j LEFT JOIN lanes l ON l.id = j.lane WHERE j.seq = ?`,
            seq,
          ) as WaitRow,
        buckets(lane) {
          const [ids] = db.get<[string]>('SELECT buckets FROM lanes WHERE id = ?', lane) as [string]
          return (JSON.parse(ids) as number[]).map((bucket) => loadBucket(context, bucket, nowUs))
        },
        countAhead: (seq, priority) => {
          // Two ranges instead of an OR, since an OR would use only the lane of the index.
          const [count] = db.get<[number]>(
            `SELECT (SELECT count(*) FROM jobs a WHERE a.lane = j.lane AND a.state = 1 AND a.priority > ?2)
             + (SELECT count(*) FROM jobs a WHERE a.lane = j.lane AND a.state = 1 AND a.priority = ?2 AND a.seq < ?1)
             FROM jobs j WHERE j.seq = ?1`,
            seq,
            priority,
          ) as [number]
          return count
        },
        workerWaits: (lane) => waitsOfWorkers(context, lane, nowUs),
        limitedQueues: () =>
          db.all<[...LimitedQueue]>(
            `SELECT name, limits, limit_name FROM queues WHERE limit_name IS NOT NULL OR limits <> '[]'`,
          ),
      },
      id,
    ),
  )
}
