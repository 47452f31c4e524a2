/** Who starts before whom among the lanes of one line, if nothing changes: by priority, and in turn at the same priority. */
import { TurnOrder } from './turn-order.ts'

/** A lane that stands in the line, with its waiting jobs counted. */
export interface Contender {
  readonly id: number
  /** When it was last served, as a counter. */
  readonly turn: number
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
 * How many jobs of each lane start before the given one, which is itself not counted. O(lanes × priorities), whatever the backlog:
 * at each priority the lanes are served in rounds, and those served longest ago begin the next one.
 */
export function startsBefore(contenders: readonly Contender[], place: LanePlace): Map<number, number> {
  const before = new Map<number, number>()
  let order = [...contenders].sort((a, b) => a.turn - b.turn || a.head - b.head || a.id - b.id)
  const priorities = new Set(contenders.flatMap(({ levels }) => levels.map(({ priority }) => priority)))
  for (const priority of [...priorities].sort((a, b) => b - a)) {
    if (priority < place.priority) break
    const counts = new Map(order.map((lane) => [lane, countAt(lane, priority)]))
    if (priority === place.priority) {
      const own = order.findIndex(({ id }) => id === place.lane)
      for (const [i, lane] of order.entries())
        add(before, lane.id, Math.min(counts.get(lane) ?? 0, place.before + (i < own ? 1 : 0)))
      break
    }
    for (const [lane, count] of counts) add(before, lane.id, count)
    const served = order.filter((lane) => (counts.get(lane) ?? 0) > 0)
    // The sort is stable: of two lanes that are served out in the same round, the earlier in turn stays so.
    served.sort((a, b) => (counts.get(a) ?? 0) - (counts.get(b) ?? 0))
    order = [...order.filter((lane) => !served.includes(lane)), ...served]
  }
  return before
}

/** One waiting job of a lane. */
export interface Waiting {
  readonly seq: number
  readonly priority: number
  readonly units: number
}

/** The units of the first jobs of several lanes, in the order in which they start. */
export function unitsInTurn(
  lanes: readonly { readonly id: number; readonly turn: number; readonly jobs: readonly Waiting[] }[],
): number[] {
  const order = new TurnOrder<Entry>()
  const units: number[] = []
  let turn = 0
  for (const lane of lanes) {
    turn = Math.max(turn, lane.turn)
    push(order, lane, 0, lane.turn)
  }
  for (let next = order.pop(); next; next = order.pop()) {
    units.push(next.lane.jobs[next.at]?.units ?? 0)
    push(order, next.lane, next.at + 1, ++turn)
  }
  return units
}

interface Entry {
  readonly id: number
  readonly priority: number
  readonly turn: number
  readonly head: number
  readonly lane: { readonly id: number; readonly jobs: readonly Waiting[] }
  readonly at: number
}

function push(order: TurnOrder<Entry>, lane: Entry['lane'], at: number, turn: number): void {
  const job = lane.jobs[at]
  if (job) order.push({ id: lane.id, priority: job.priority, turn, head: job.seq, lane, at })
}

function countAt({ levels }: Contender, priority: number): number {
  return levels.find((level) => level.priority === priority)?.count ?? 0
}

function add(counts: Map<number, number>, key: number, count: number): void {
  counts.set(key, (counts.get(key) ?? 0) + count)
}
