import type { Lane } from '../../policy/admission/lane.ts'
import { encodeScanCursor } from '../../policy/admission/scan-cursor.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import type { Context } from './context.ts'

/** A bucket that so many lanes need groups the lines of others: its lanes can be held together behind one deputy. */
const SHARED_BY = 16

/** Deputies stand in a group of their own: they are never held. */
export const DEPUTY = '!'

/** The group of a lane within the line it stands in: the other buckets that it shares with many lanes. */
function overOf(lane: Lane): string {
  if (lane.deputyOf) return DEPUTY
  return lane.buckets
    .filter((bucket) => bucket !== lane.on && (bucket as StoredBucket).lanes >= SHARED_BY)
    .map((bucket) => bucket.id)
    .sort((a, b) => a - b)
    .join(',')
}

/**
 * Writes a lane as a decision left it.
 * @param wasOpen as it was loaded: then less is to be written where it stays so.
 * @param passed of one that is parked: the sets of tasks that found nothing in it
 */
export function saveLane({ db }: Context, lane: Lane, wasOpen: boolean, nowUs: number, passed: string | null): void {
  const sieve = lane.scanCursor && encodeScanCursor(lane.scanCursor)
  if (lane.state === 'empty') {
    db.run(
      'UPDATE lanes SET state = 0, bucket = NULL, over = NULL, deputy_of = NULL, sieve = NULL, turn = ?, taken = 0, emptied = ? WHERE id = ?',
      lane.turn,
      nowUs,
      lane.id,
    )
  } else if (lane.state === 'parked') {
    db.run(
      'UPDATE lanes SET state = 4, bucket = NULL, over = NULL, deputy_of = NULL, sieve = NULL, passed = ?, priority = ?, head = ?, turn = ?, taken = ? WHERE id = ?',
      passed,
      lane.priority,
      lane.head,
      lane.turn,
      lane.taken,
      lane.id,
    )
  } else if (lane.state === 'open' && wasOpen) {
    db.run(
      'UPDATE lanes SET sieve = ?, priority = ?, head = ?, turn = ?, taken = ? WHERE id = ?',
      sieve,
      lane.priority,
      lane.head,
      lane.turn,
      lane.taken,
      lane.id,
    )
  } else if (lane.state === 'open') {
    db.run(
      'UPDATE lanes SET state = 1, bucket = NULL, over = NULL, deputy_of = NULL, sieve = ?, priority = ?, head = ?, turn = ?, taken = ? WHERE id = ?',
      sieve,
      lane.priority,
      lane.head,
      lane.turn,
      lane.taken,
      lane.id,
    )
  } else {
    db.run(
      'UPDATE lanes SET state = 2, sieve = ?, bucket = ?, over = ?, deputy_of = ?, priority = ?, head = ?, turn = ?, taken = ? WHERE id = ?',
      sieve,
      lane.on?.id ?? null,
      overOf(lane),
      lane.deputyOf?.id ?? null,
      lane.priority,
      lane.head,
      lane.turn,
      lane.taken,
      lane.id,
    )
  }
}
