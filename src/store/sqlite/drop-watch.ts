import { WATCHED_AT_MOST, watchesOf } from '../../policy/admission/drop-watch.ts'
import type { Lane } from '../../policy/admission/lane.ts'
import type { Context } from './context.ts'
import { LANE } from '../shared/state.ts'

/**
 * Records which buckets may drop a lane's jobs while it waits in another bucket's wait list. Lanes without such buckets
 * have no record.
 */
export function saveWatches({ db }: Context, lane: Lane): void {
  const watches = watchesOf(lane)
  if (!watches) return
  db.run('DELETE FROM drop_watch WHERE lane = ?', lane.id)
  for (const [bucket, need] of watches)
    db.run('INSERT INTO drop_watch (lane, bucket, need) VALUES (?, ?, ?)', lane.id, bucket, need)
}

/**
 * Lanes that wait for another bucket and need one that drops, the greatest need first; of these queues, or of any
 * (null).
 */
export function watchRows(
  { db }: Context,
  bucket: number,
  queues: readonly number[] | null,
): [need: number, lane: number][] {
  return db.all<[number, number]>(
    `SELECT w.need, w.lane FROM drop_watch w CROSS JOIN lanes l ON l.id = w.lane
     WHERE w.bucket = ?1 AND l.state = ${LANE.waiting} AND l.bucket <> ?1 AND (?2 IS NULL OR l.queue IN (SELECT value FROM json_each(?2)))
     ORDER BY w.need DESC, w.lane LIMIT ${WATCHED_AT_MOST}`,
    bucket,
    queues && JSON.stringify(queues),
  )
}
