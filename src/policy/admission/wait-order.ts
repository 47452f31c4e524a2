/** The start order of the lanes of one wait list if nothing changes: by priority, then by turn. */
import { endsTurn, roundOf, startsBeforeRound, type TurnState } from './turn.ts'
import { TurnOrder } from './turn-order.ts'

/** A lane that stands in the wait list, with its waiting jobs counted. */
export interface Contender extends Readonly<TurnState> {
  readonly id: number
  /** Sequence of its first job. */
  readonly head: number
  /** Its waiting jobs by priority, the highest first. */
  readonly levels: readonly { readonly priority: number; readonly count: number }[]
}

/** A job's place in its lane. */
export interface LanePlace {
  readonly lane: number
  readonly priority: number
  /** Jobs before it in its lane that have the same priority. */
  readonly before: number
}

/**
 * Counts the jobs of each lane that start before the given one, which is not counted. O(lanes × priorities), for any
 * backlog. At each priority the lanes take their turns in rounds, and those served longest ago begin the next round.
 */
export function startsBefore(contenders: readonly Contender[], place: LanePlace): Map<number, number> {
  const before = new Map<number, number>()
  let order: Contender[] = [...contenders].sort((a, b) => a.turn - b.turn || a.head - b.head || a.id - b.id)
  const priorities = new Set(contenders.flatMap(({ levels }) => levels.map(({ priority }) => priority)))
  for (const priority of [...priorities].sort((a, b) => b - a)) {
    if (priority < place.priority) break
    const counts = new Map(order.map((lane) => [lane, countAt(lane, priority)]))
    if (priority === place.priority) {
      const own = order.findIndex(({ id }) => id === place.lane)
      const lane = order[own]
      const round = lane ? roundOf(lane, place.before) : 0
      for (const [i, other] of order.entries()) {
        const turns = i === own ? place.before : startsBeforeRound(other, round + (i < own ? 1 : 0))
        add(before, other.id, Math.min(counts.get(other) ?? 0, turns))
      }
      break
    }
    for (const [lane, count] of counts) add(before, lane.id, count)
    const rounds = new Map(order.map((lane) => [lane, roundOf(lane, counts.get(lane) ?? 0)]))
    // The sort is stable: of two lanes whose last turn ends in the same round, the earlier stays first. A lane whose
    // turn continues keeps its place.
    order = [...order]
      .sort((a, b) => (rounds.get(a) ?? 0) - (rounds.get(b) ?? 0))
      .map((lane) => afterStarts(lane, counts.get(lane) ?? 0))
  }
  return before
}

/** One waiting job of a lane. */
export interface WaitingUnits {
  readonly seq: number
  readonly priority: number
  readonly units: number
}

/** The units of the first jobs of several lanes, in the order in which they start. */
export function unitsInTurn(
  lanes: readonly (Readonly<TurnState> & { readonly id: number; readonly jobs: readonly WaitingUnits[] })[],
): number[] {
  const order = new TurnOrder<Entry>()
  const units: number[] = []
  let turn = 0
  for (const lane of lanes) {
    turn = Math.max(turn, lane.turn)
    push(order, { ...lane }, 0)
  }
  for (let next = order.pop(); next; next = order.pop()) {
    const { lane, at } = next
    units.push(lane.jobs[at]?.units ?? 0)
    if (endsTurn(lane)) lane.turn = ++turn
    push(order, lane, at + 1)
  }
  return units
}

interface Player extends TurnState {
  readonly id: number
  readonly jobs: readonly WaitingUnits[]
}

interface Entry {
  readonly id: number
  readonly priority: number
  readonly turn: number
  readonly head: number
  readonly lane: Player
  readonly at: number
}

function push(order: TurnOrder<Entry>, lane: Player, at: number): void {
  const job = lane.jobs[at]
  if (job) order.push({ id: lane.id, priority: job.priority, turn: lane.turn, head: job.seq, lane, at })
}

function afterStarts(lane: Contender, starts: number): Contender {
  const round = roundOf(lane, starts)
  return { ...lane, taken: starts - startsBeforeRound(lane, round) + (round === 0 ? lane.taken : 0) }
}

function countAt({ levels }: Contender, priority: number): number {
  return levels.find((level) => level.priority === priority)?.count ?? 0
}

function add(counts: Map<number, number>, key: number, count: number): void {
  counts.set(key, (counts.get(key) ?? 0) + count)
}
