/** What one turn of a lane comes to: as many starts in a row as its share, then the lane goes behind all that wait. */

/** The most starts that one turn may have, so that no lane waits for longer than that behind another. */
export const MAX_SHARE = 100

/** Where a lane stands among those that it takes turns with. */
export interface TurnState {
  /** When its turn began: the lane served least recently has the lowest. */
  turn: number
  /** Starts of the present turn; fewer than `share`. */
  taken: number
  /** Starts that one turn has; 1 to 100. */
  readonly share: number
}

/**
 * Counts one start. Answers true when the turn is over by it: the lane then needs a new place, behind all others.
 *
 * Source: deficit round robin (Shreedhar and Varghese, 1995) with the share as the quantum and one start as the cost of each. Over any
 * time in which two lanes have work, their starts divided by their shares differ by at most one.
 */
export function endsTurn(lane: TurnState): boolean {
  lane.taken++
  if (lane.taken < lane.share) return false
  lane.taken = 0
  return true
}

/** The round, from 0, in which a lane has the start after so many; its present turn is in round 0. */
export function roundOf(lane: TurnState, starts: number): number {
  const first = restOf(lane)
  return starts < first ? 0 : 1 + Math.floor((starts - first) / lane.share)
}

/** Starts that a lane has before a round begins. */
export function startsBeforeRound(lane: TurnState, round: number): number {
  return round === 0 ? 0 : restOf(lane) + (round - 1) * lane.share
}

/** Starts left of the present turn: at least one, even where the share has become smaller meanwhile. */
function restOf({ taken, share }: TurnState): number {
  return Math.max(1, share - taken)
}
