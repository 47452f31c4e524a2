import type { Lane } from '../../policy/admission/lane.ts'
import { encodeScanCursor } from '../../policy/admission/scan-cursor.ts'
import { LANE } from '../shared/state.ts'
import type { Context } from './context.ts'

// One constant text: the connection finds statements by their text, whose hash is cached.
const EMPTY = `UPDATE lanes SET state = ${LANE.empty}, bucket = NULL, over = NULL, deputy_of = NULL, sieve = NULL, turn = ?, taken = 0, emptied = ? WHERE id = ?`
const PARK = `UPDATE lanes SET state = ${LANE.parked}, bucket = NULL, over = NULL, deputy_of = NULL, sieve = NULL, passed = ?, priority = ?, head = ?, turn = ?, taken = ? WHERE id = ?`
const OPEN = `UPDATE lanes SET state = ${LANE.open}, bucket = NULL, over = NULL, deputy_of = NULL, sieve = ?, priority = ?, head = ?, turn = ?, taken = ? WHERE id = ?`
const WAIT = `UPDATE lanes SET state = ${LANE.waiting}, sieve = ?, bucket = ?, over = ?, deputy_of = ?, priority = ?, head = ?, turn = ?, taken = ? WHERE id = ?`

/** The parts of a saved lane beside its own fields. */
interface SavedWith {
  /** Its state when it was loaded: a lane that stays open needs fewer columns. */
  readonly wasOpen: boolean
  readonly nowUs: number
  /** For a parked lane: the task sets that found nothing in it. */
  readonly passed: string | null
  /** For a waiting lane: its group. */
  readonly over: string
}

/** Writes a lane that a decision changed. */
export function saveLane({ db }: Context, lane: Lane, { wasOpen, nowUs, passed, over }: SavedWith): void {
  const sieve = lane.scanCursor && encodeScanCursor(lane.scanCursor)
  if (lane.state === 'empty') {
    db.run(EMPTY, lane.turn, nowUs, lane.id)
  } else if (lane.state === 'parked') {
    db.run(PARK, passed, lane.priority, lane.head, lane.turn, lane.taken, lane.id)
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
    db.run(OPEN, sieve, lane.priority, lane.head, lane.turn, lane.taken, lane.id)
  } else {
    db.run(
      WAIT,
      sieve,
      lane.on?.id ?? null,
      over,
      lane.deputyOf?.id ?? null,
      lane.priority,
      lane.head,
      lane.turn,
      lane.taken,
      lane.id,
    )
  }
}
