import type { Bucket, Lane } from './lane.ts'
import { hasGuaranteeIn, isGuaranteed, levelOfHead } from './guaranteed.ts'
import { rank, type TurnRank } from './turn-order.ts'

/** A lane that a decision examines. */
export interface Candidate extends TurnRank {
  readonly lane: Lane
  /** The wait list that offers the lane as its first; null: the lane is open. */
  readonly waitList: WaitList | null
}

/** A lane as a decision examines it. @param waitList the wait list that offers it; null: it is open */
export function candidateOf(lane: Lane, waitList: WaitList | null): Candidate {
  return { id: lane.id, priority: levelOfHead(lane), turn: lane.turn, head: lane.head, lane, waitList }
}

/**
 * The lanes of one wait list that share a queue and the other buckets that `isGroupedBy` names, in turn order. They are
 * read as needed. A store may read all lanes of a queue in a short list as one group.
 */
export interface WaitListGroup {
  readonly queue: number
  /** Other buckets that all of the group need; null: they are all lanes of the queue in this list. */
  readonly over: readonly number[] | null
  /** The stored place of the first lane not yet passed, which is not read for it, or an earlier one; null at the end. */
  front(): TurnRank | null
  /** The first lane not yet passed; null at the end. */
  peek(): Lane | null
  /** Passes the first lane. */
  advance(): void
}

/** A bucket that at least this many lanes need has groups in the wait lists of other buckets. */
export const SHARED_BY = 16

/**
 * Whether a bucket tells the group of a lane that waits on another one: many lanes need it, and it refuses some now, of
 * which one deputy can shadow such a group. A bucket that refuses nothing has no deputies, and would only split the list.
 */
export function isGroupedBy(lane: Lane, bucket: Bucket): boolean {
  if (bucket === lane.on || bucket.lanes < SHARED_BY || bucket.wakeAtUs === null) return false
  // A start within its guarantee does not wait for a deputy without one.
  return !lane.buckets.some(({ policy }) => policy?.of?.limit === bucket.limit)
}

const NONE: ReadonlySet<Lane> = new Set()

/** Reads the stored wait list of a bucket. */
export interface WaitListSource {
  groups(bucket: Bucket): WaitListGroup[]
  /** The buckets in whose lists its deputies wait. */
  deputyBuckets(bucket: Bucket): Iterable<number>
  /** Its deputies that wait in the list of one bucket. */
  deputies(bucket: Bucket, on: number): Lane[]
  served(queue: number): QueueService
}

/**
 * Where a queue's lanes can start: in this decision, at another worker, or nowhere for lack of a live worker. `apart`:
 * the lanes are another worker's views of per-worker lanes; they do not block others but must be woken.
 */
export type QueueService = 'here' | 'elsewhere' | 'apart' | 'nowhere'

/**
 * The wait list of one bucket within one decision.
 *
 * Deputies: when another bucket C refuses the head of this wait list, the head waits in C's list as this list's deputy.
 * The lanes here that rank behind the deputy and need C too are *shadowed*: decisions skip them, and they block no
 * other lane. A deputy is never shadowed.
 */
export class WaitList {
  readonly bucket: Bucket
  readonly #groups: WaitListGroup[]
  readonly #sinks: (lane: Lane) => boolean
  /** Lanes that joined, came back or were passed over in this decision. */
  readonly #joined = new Set<Lane>()
  /** Its deputies by the bucket in whose list they wait. Of thousands, few wait for a bucket that a decision meets. */
  readonly #deputies = new Map<number, Set<Lane>>()
  /** The buckets whose deputies are still to be read. */
  readonly #unread: Set<number>
  /** The due time when the decision began; null: the list was empty. */
  readonly dueAtUs: number | null
  /** A candidate of this wait list is in the turn order. */
  queued = false
  readonly #source: WaitListSource

  /** @param sinks lowers a lane that stands too high, and says whether it did */
  constructor(bucket: Bucket, source: WaitListSource, sinks: (lane: Lane) => boolean) {
    this.bucket = bucket
    this.#sinks = sinks
    this.#source = source
    this.dueAtUs = bucket.wakeAtUs
    this.#groups = bucket.wakeAtUs === null ? [] : source.groups(bucket)
    this.#unread = new Set(source.deputyBuckets(bucket))
  }

  /** The lanes that joined this list or were passed over in this decision. */
  get joined(): ReadonlySet<Lane> {
    return this.#joined
  }

  /** Whether some of its lanes may be shadowed. */
  get hasDeputies(): boolean {
    return this.#deputies.size > 0 || this.#unread.size > 0
  }

  join(lane: Lane): void {
    this.#joined.add(lane)
  }

  leave(lane: Lane): void {
    this.#joined.delete(lane)
  }

  /** A lane is the deputy of one list: the first that it left. */
  addDeputy(lane: Lane): void {
    if (lane.deputyOf) return
    lane.deputyOf = this.bucket
    this.#addDeputy(lane)
  }

  #addDeputy(lane: Lane): void {
    if (!lane.on || lane.on === this.bucket) return
    const deputies = this.#deputies.get(lane.on.id)
    if (deputies) deputies.add(lane)
    else this.#deputies.set(lane.on.id, new Set([lane]))
  }

  #deputiesIn(id: number): Iterable<Lane> {
    if (this.#unread.size > 0 && this.#unread.delete(id))
      for (const lane of this.#source.deputies(this.bucket, id))
        // One that this decision has opened is none any more.
        if (lane.deputyOf === this.bucket && lane.on?.id === id) this.#addDeputy(lane)
    return this.#deputies.get(id) ?? NONE
  }

  /** @param on the bucket in whose list it waited */
  removeDeputy(lane: Lane, { id }: Bucket): void {
    const deputies = this.#deputies.get(id)
    if (deputies?.delete(lane) && deputies.size === 0) this.#deputies.delete(id)
  }

  /**
   * The first lane in turn order that is not shadowed and whose queue passes, except `except`. Deputies that `holds`
   * refuses shadow no lane.
   */
  first(
    passes: (queue: number) => boolean,
    except: Lane | null = null,
    holds: (deputy: Lane) => boolean = ({ queue }) => passes(queue),
  ): Lane | null {
    let best = this.#highest(passes, except, holds)
    while (best && this.#sinks(best)) {
      this.#joined.add(best)
      best = this.#highest(passes, except, holds)
    }
    return best
  }

  #highest(passes: (queue: number) => boolean, except: Lane | null, holds: (deputy: Lane) => boolean): Lane | null {
    let best: Lane | null = null
    for (const lane of this.#joined) {
      if (lane === except || !passes(lane.queue) || (best && rank(lane, best) > 0) || this.holder(lane, holds)) continue
      best = lane
    }
    for (const group of this.#groups) {
      if (!passes(group.queue)) continue
      const front = group.front()
      // Most groups need no lane of theirs: they begin behind the best one, or are shadowed as a whole.
      if (!front || (best && rank(best, front) < 0) || this.#isShadowed(group, front, holds)) continue
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

  /** Whether a deputy shadows all of a group. Lanes with a guarantee in the deputy's bucket are looked at one by one. */
  #isShadowed({ over }: WaitListGroup, front: TurnRank, holds: (deputy: Lane) => boolean): boolean {
    for (const id of over ?? [])
      for (const deputy of this.#deputiesIn(id))
        if (deputy.on?.policy?.reserve === undefined && rank(deputy, front) < 0 && holds(deputy)) return true
    return false
  }

  #firstOfGroup(group: WaitListGroup, holds: (deputy: Lane) => boolean, except: Lane | null): Lane | null {
    for (;;) {
      const lane = this.#skipMoved(group)
      if (!lane) return null
      const holder = this.holder(lane, holds)
      if (!holder && lane !== except) return lane
      if (holder?.on && group.over?.includes(holder.on.id)) return null
      if (holder?.on && group.over) this.#regroup(lane, holder.on)
      this.#joined.add(lane)
      group.advance()
    }
  }

  /**
   * Moves a shadowed lane into the group of its deputy's bucket, which closed after the lane came, so that later
   * decisions pass all of the group at once. Only the lanes of queues that this decision serves are its to write.
   */
  #regroup(lane: Lane, over: Bucket): void {
    if (isGroupedBy(lane, over) && this.#source.served(lane.queue) === 'here') lane.regrouped = true
  }

  /** The group's first lane that is still here as stored. Lanes that moved or joined again are counted elsewhere. */
  #skipMoved(group: WaitListGroup): Lane | null {
    for (;;) {
      const lane = group.peek()
      if (!lane || (lane.on === this.bucket && !this.#joined.has(lane))) return lane
      group.advance()
    }
  }

  /** The deputy that waits elsewhere for this lane: of those that `holds` passes. */
  holder(lane: Lane, holds: (deputy: Lane) => boolean): Lane | null {
    if (lane.deputyOf || !this.hasDeputies) return null
    for (const id of lane.bucketIds) {
      const deputies = id === this.bucket.id ? NONE : this.#deputiesIn(id)
      for (const deputy of deputies)
        if (rank(deputy, lane) < 0 && holds(deputy) && !goesBefore(lane, deputy)) return deputy
    }
    return null
  }
}

/** Whether a lane may start within its guarantee, although a deputy without one waits. */
function goesBefore(lane: Lane, deputy: Lane): boolean {
  const { on } = deputy
  return on?.policy?.reserve !== undefined && !isGuaranteed(deputy) && hasGuaranteeIn(lane, on)
}
