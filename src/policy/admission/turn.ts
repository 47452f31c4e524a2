/** One turn of a lane is as many starts in a row as its share. Then the lane goes behind all that wait. */

/** The most starts that one turn may have, so that no lane waits for longer than that behind another. */
export const MAX_SHARE = 100

/** A lane's position among the lanes that it alternates with. */
export interface TurnState {
  /** When its turn began: the lane served least recently has the lowest. */
  turn: number
  /** The starts of the present turn; fewer than `share`. */
  taken: number
  /** The starts of one turn; 1 to 100. */
  readonly share: number
}

/**
 * Counts one start. Answers true when the turn is over by it: the lane then needs a new place, behind all others.
 *
 * Source: deficit round robin (Shreedhar and Varghese, 1995) with the share as the quantum and one start as the cost of
 * each. Over any time in which two lanes have work, their starts divided by their shares differ by at most one.
 */
export function endsTurn(lane: TurnState): boolean {
  lane.taken++
  if (lane.taken < lane.share) return false
  lane.taken = 0
  return true
}

/** The round, from 0, in which a lane makes a start after `starts` others. Its present turn is round 0. */
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
