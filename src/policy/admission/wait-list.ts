import type { Bucket, Lane } from './lane.ts'
import { rank, type Ranked } from './turn-order.ts'

/** A lane that a decision is to look at. */
export interface Candidate extends Ranked {
  readonly lane: Lane
  /** Set: the lane is looked at as the first of this wait list. */
  readonly waitList: WaitList | null
}

/** Lanes of one wait list that share a queue and their other widely shared buckets, in turn; read as far as needed. */
export interface WaitListGroup {
  readonly queue: number
  /** The other shared buckets that all of the group need. */
  readonly over: readonly number[]
  /** The first that was not passed; null at the end. */
  peek(): Lane | null
  /** Passes the first. */
  advance(): void
}

/** What the wait list of a bucket is, as stored. */
export interface WaitListSource {
  groups(bucket: Bucket): WaitListGroup[]
  deputies(bucket: Bucket): Lane[]
}

/**
 * Whether a queue's lanes can start in this decision, could elsewhere, or have no live worker and so hold nobody up. `apart`: they are
 * another worker's views of lanes that each worker has its own of: they hold nobody up either, but have to be woken.
 */
export type QueueService = 'here' | 'elsewhere' | 'apart' | 'nowhere'

/**
 * The waiting wait list of one bucket within one decision.
 *
 * Deputies: when the head of this wait list is refused by another bucket C, it waits in C's wait list as this wait list's deputy, and the lanes
 * here that need C too and rank behind it are *held*: not looked at, and no hindrance to anybody. A deputy is never held.
 */
export class WaitList {
  readonly bucket: Bucket
  readonly #groups: WaitListGroup[]
  /** Lanes that joined, came back or were passed over in this decision. */
  readonly #joined = new Set<Lane>()
  readonly #deputies: Set<Lane>
  /** When it was due as the decision began; null: nobody waited. */
  readonly dueAtUs: number | null
  /** A candidate of this wait list is in the turn order. */
  queued = false

  constructor(bucket: Bucket, source: WaitListSource) {
    this.bucket = bucket
    this.dueAtUs = bucket.wakeAtUs
    this.#groups = bucket.wakeAtUs === null ? [] : source.groups(bucket)
    this.#deputies = new Set(source.deputies(bucket))
  }

  /** Lanes that came to stand here in this decision, or were passed over. */
  get joined(): ReadonlySet<Lane> {
    return this.#joined
  }

  /** Some of its lanes may be held. */
  get hasDeputies(): boolean {
    return this.#deputies.size > 0
  }

  join(lane: Lane): void {
    this.#joined.add(lane)
  }

  leave(lane: Lane): void {
    this.#joined.delete(lane)
  }

  addDeputy(lane: Lane): void {
    this.#deputies.add(lane)
  }

  removeDeputy(lane: Lane): void {
    this.#deputies.delete(lane)
  }

  /** The first lane in turn that is not held and whose queue passes; `except` is looked past. Deputies of queues that `holds` refuses hold nobody. */
  first(
    passes: (queue: number) => boolean,
    except: Lane | null = null,
    holds: (queue: number) => boolean = passes,
  ): Lane | null {
    let best: Lane | null = null
    for (const lane of this.#joined) {
      if (lane === except || !passes(lane.queue) || (best && rank(lane, best) > 0) || this.#holder(lane, holds))
        continue
      best = lane
    }
    for (const group of this.#groups) {
      if (!passes(group.queue)) continue
      const lane = this.#firstOfGroup(group, holds, except)
      if (lane && (!best || rank(lane, best) < 0)) best = lane
    }
    return best
  }

  /** The queues whose lanes stand here. */
  queues(): ReadonlySet<number> {
    const queues = new Set<number>()
    for (const lane of this.#joined) queues.add(lane.queue)
    for (const group of this.#groups) queues.add(group.queue)
    return queues
  }

  get empty(): boolean {
    return this.#joined.size === 0 && this.#groups.every((group) => this.#skipMoved(group) === null)
  }

  #firstOfGroup(group: WaitListGroup, holds: (queue: number) => boolean, except: Lane | null): Lane | null {
    for (;;) {
      const lane = this.#skipMoved(group)
      if (!lane) return null
      const holder = this.#holder(lane, holds)
      if (!holder && lane !== except) return lane
      if (holder && holder.on && group.over.includes(holder.on.id)) return null
      this.#joined.add(lane)
      group.advance()
    }
  }

  /** The group's first that still stands here as it was stored; those that moved or joined anew are counted elsewhere. */
  #skipMoved(group: WaitListGroup): Lane | null {
    for (;;) {
      const lane = group.peek()
      if (!lane || (lane.on === this.bucket && !this.#joined.has(lane))) return lane
      group.advance()
    }
  }

  /** The deputy that waits elsewhere on this lane's behalf; one whose queue can start nothing here does so for nobody. */
  #holder(lane: Lane, holds: (queue: number) => boolean): Lane | null {
    if (lane.deputyOf || this.#deputies.size === 0) return null
    for (const deputy of this.#deputies) {
      const over = deputy.on
      if (!over || over === this.bucket || !lane.buckets.includes(over) || !holds(deputy.queue)) continue
      if (rank(deputy, lane) < 0) return deputy
    }
    return null
  }
}
