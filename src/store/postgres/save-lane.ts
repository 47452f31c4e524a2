import { watchesOf } from '../../policy/admission/drop-watch.ts'
import type { Lane } from '../../policy/admission/lane.ts'
import { encodeScanCursor } from '../../policy/admission/scan-cursor.ts'
import { overOf } from '../shared/lane-group.ts'
import { LANE } from '../shared/state.ts'
import { inOrder, LANE_ROW } from './sql/fields.ts'

/** A lane that is not parked: `sluice.write_plain_lanes` takes these by columns. */
export type LaneColumns = readonly [
  id: number,
  state: number,
  priority: number,
  head: number,
  turn: number,
  taken: number,
  sieve: string | null,
  bucket: number | null,
  over: string | null,
  deputyOf: number | null,
]

/** The row of a lane that a decision changed, if it has only these columns. @param held as for `laneAsWritten` */
export function laneColumns(lane: Lane, held: boolean): LaneColumns | null {
  if ((lane.state === 'parked' && !held) || watchesOf(lane) !== null) return null
  const { id, state, on, deputyOf, priority, head, turn, taken, scanCursor } = lane
  if (state === 'empty' && !held) return [id, LANE.empty, priority, head, turn, 0, null, null, null, null]
  const sieve = scanCursor && encodeScanCursor(scanCursor)
  if (state !== 'waiting') return [id, LANE.open, priority, head, turn, taken, sieve, null, null, null]
  const wait = [on?.id ?? null, overOf(lane), deputyOf?.id ?? null] as const
  return [id, LANE.waiting, priority, head, turn, taken, sieve, ...wait]
}

/**
 * The row of a lane that a decision changed.
 * @param held the decision could not take some of its jobs, so it is never empty
 * @param passed for a parked lane: the task sets that found nothing in it
 */
export function laneAsWritten(lane: Lane, held: boolean, passed: string | null): unknown[] {
  const { id, state, on, deputyOf, priority, head, turn, taken, scanCursor } = lane
  const emptied = state === 'empty' && !held
  const waits = state === 'waiting'
  const parked = state === 'parked' && !held
  return inOrder(LANE_ROW, {
    id,
    state: emptied ? LANE.empty : waits ? LANE.waiting : parked ? LANE.parked : LANE.open,
    bucket: waits ? (on?.id ?? null) : null,
    over: waits ? overOf(lane) : '',
    deputy_of: deputyOf?.id ?? null,
    priority,
    head,
    turn,
    taken: emptied ? 0 : taken,
    sieve: emptied || parked || !scanCursor ? null : encodeScanCursor(scanCursor),
    passed: parked ? passed : null,
    watches: watchesOf(lane),
  })
}
