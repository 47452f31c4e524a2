import type { BucketState } from './bucket.ts'
import type { LimitPolicy } from './limit.ts'
import { rank, type Ranked } from './turn-order.ts'

/** `wakeAtUs` of a line that waits for a permit, or whose lanes are all held: no clock can tell when. */
export const NEVER_US: number = Number.MAX_SAFE_INTEGER

/** One bucket within a decision: loaded under its lock, written back at the end. */
export interface Bucket {
  readonly id: number
  readonly limit: string
  readonly key: string
  /** Null: the limit is not defined here yet, nothing is admitted. */
  readonly policy: LimitPolicy | null
  readonly state: BucketState
  /** Permits held by active jobs. */
  active: number
  /** When the first of the line may go; null: nobody waits; NEVER_US: a permit has to return first. */
  wakeAtUs: number | null
  /** Starts that this decision granted from it. */
  granted: number
  /** Its state or its permits changed. */
  changed: boolean
}

/** One waiting job at the head of its lane. */
export interface Head {
  readonly seq: number
  readonly priority: number
  /** Units per bucket, in the order of the lane's buckets; null: one each. */
  readonly weights: readonly number[] | null
  /** Runs so far. */
  readonly attempt: number
  /** When it became available. */
  readonly sinceUs: number
}

/** One lane within a decision: the waiting jobs of one queue that need the same buckets. */
export interface Lane extends Ranked {
  readonly queue: number
  readonly buckets: readonly Bucket[]
  state: 'open' | 'waiting' | 'empty'
  /** The bucket in whose line it stands. */
  on: Bucket | null
  /** The bucket whose line it left to wait, on behalf of the lanes behind it, in another one's. */
  deputyOf: Bucket | null
  priority: number
  turn: number
  head: number
  /** Head jobs loaded so far; `next` is the first that was not granted or rejected. */
  heads: Head[]
  next: number
  changed: boolean
}

/** Lanes of one line that share a queue and their other widely shared buckets, in turn; read as far as needed. */
export interface LineGroup {
  readonly queue: number
  /** The other shared buckets that all of the group need. */
  readonly over: readonly number[]
  /** The first that was not passed; null at the end. */
  peek(): Lane | null
  /** Passes the first. */
  advance(): void
}

/** What the line of a bucket is, as stored. */
export interface LineSource {
  groups(bucket: Bucket): LineGroup[]
  deputies(bucket: Bucket): Lane[]
}

/** Whether a queue's lanes can start in this decision, could elsewhere, or have no live worker and so hold nobody up. */
export type Served = 'here' | 'elsewhere' | 'nowhere'

/**
 * The waiting line of one bucket within one decision.
 *
 * Deputies: when the head of this line is refused by another bucket C, it waits in C's line as this line's deputy, and the lanes
 * here that need C too and rank behind it are *held*: not looked at, and no hindrance to anybody. A deputy is never held.
 */
export class Line {
  readonly bucket: Bucket
  readonly #groups: LineGroup[]
  /** Lanes that joined, came back or were passed over in this decision. */
  readonly #joined = new Set<Lane>()
  readonly #deputies: Set<Lane>
  /** A candidate of this line is in the turn order. */
  queued = false

  constructor(bucket: Bucket, source: LineSource) {
    this.bucket = bucket
    this.#groups = bucket.wakeAtUs === null ? [] : source.groups(bucket)
    this.#deputies = new Set(source.deputies(bucket))
  }

  /** Lanes that came to stand here in this decision, or were passed over. */
  get joined(): ReadonlySet<Lane> {
    return this.#joined
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

  /** The first lane in turn that is not held and whose queue passes; `except` is looked past. */
  first(passes: (queue: number) => boolean, except: Lane | null = null): Lane | null {
    let best: Lane | null = null
    for (const lane of this.#joined) {
      if (lane === except || !passes(lane.queue) || (best && rank(lane, best) > 0) || this.#held(lane)) continue
      best = lane
    }
    for (const group of this.#groups) {
      if (!passes(group.queue)) continue
      const lane = this.#firstOfGroup(group, except)
      if (lane && (!best || rank(lane, best) < 0)) best = lane
    }
    return best
  }

  get empty(): boolean {
    return this.#joined.size === 0 && this.#groups.every((group) => this.#skipMoved(group) === null)
  }

  #firstOfGroup(group: LineGroup, except: Lane | null): Lane | null {
    for (;;) {
      const lane = this.#skipMoved(group)
      if (!lane) return null
      const holder = this.#holder(lane)
      if (!holder && lane !== except) return lane
      if (holder && holder.on && group.over.includes(holder.on.id)) return null
      this.#joined.add(lane)
      group.advance()
    }
  }

  /** The group's first that still stands here as it was stored; those that moved or joined anew are counted elsewhere. */
  #skipMoved(group: LineGroup): Lane | null {
    for (;;) {
      const lane = group.peek()
      if (!lane || (lane.on === this.bucket && !this.#joined.has(lane))) return lane
      group.advance()
    }
  }

  #held(lane: Lane): boolean {
    return this.#holder(lane) !== null
  }

  /** The deputy that waits elsewhere on this lane's behalf. */
  #holder(lane: Lane): Lane | null {
    if (lane.deputyOf || this.#deputies.size === 0) return null
    for (const deputy of this.#deputies) {
      const over = deputy.on
      if (over && over !== this.bucket && lane.buckets.includes(over) && rank(deputy, lane) < 0) return deputy
    }
    return null
  }
}
