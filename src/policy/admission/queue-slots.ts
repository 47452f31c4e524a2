import { charge } from '../limits/bucket.ts'
import { chargeShadow, type ShadowedBy } from '../limits/shadow.ts'
import { type Bucket, deniedUntilUs, type Head, type Lane, NEVER_US, weightOf } from './lane.ts'
import { rank, type TurnRank } from './turn-order.ts'

/** Units that one start takes from one bucket. */
export interface Charge {
  readonly bucket: Bucket
  readonly weight: number
}

/** One start. */
export interface Grant {
  readonly lane: Lane | null
  readonly queue: number
  readonly head: Head
  /** The units paid, by bucket. */
  readonly charged: readonly Charge[]
  /** When it starts: at the decision's clock, or ahead of it. */
  readonly startUs: number
  /** The limits in shadow mode that would have refused it; absent: none would. */
  readonly shadowed?: readonly ShadowedStart[]
}

/** A start that a limit in shadow mode would have refused. */
export interface ShadowedStart extends ShadowedBy {
  readonly limit: string
  readonly key: string
}

/** The charges of a start of a lane's head: in the lane's buckets, then in those of its queue. */
export function chargesOf(lane: Lane, head: Head, share: Pick<QueueSlots, 'buckets'>): Charge[] {
  const own = lane.buckets.map((bucket, i) => ({ bucket, weight: weightOf(head, i, bucket) }))
  return [...own, ...share.buckets.filter(({ bucket }) => !lane.buckets.includes(bucket))]
}

/** Takes the units and the permits of one start at `startUs`. */
export function pay(charges: readonly Charge[], nowUs: number, startUs: number): Pick<Grant, 'shadowed'> {
  const shadowed: ShadowedStart[] = []
  for (const { bucket, weight } of charges) {
    if (!bucket.policy) continue
    if (bucket.policy.mode === 'shadow') {
      const shadow = chargeShadow(bucket.policy, bucket.state, bucket.active, startUs, weight)
      if (shadow) shadowed.push({ limit: bucket.limit, key: bucket.key, ...shadow })
    } else charge(bucket.policy, bucket.state, nowUs, weight, startUs, bucket.active)
    if (bucket.policy.concurrency !== null) bucket.active++
    bucket.granted++
    bucket.grantedUnits += weight
    bucket.changed = true
  }
  return shadowed.length > 0 ? { shadowed } : {}
}

/**
 * Reads waiting jobs of a queue's unlimited lane beyond the first `skip`, in order. Fewer than `count` means there are
 * no more.
 */
export type UnlimitedLaneReader = (queue: number, skip: number, count: number) => Head[]

/** One queue within a decision: its free slots, its own buckets, and its unlimited lane of jobs without limits. */
export class QueueSlots {
  readonly queue: number
  /** The queue in which lanes of this worker alone stand: it shares the slots. */
  readonly ownQueue: number
  /** The queue's own buckets: a closed one puts the whole queue to sleep. */
  readonly buckets: readonly Charge[]
  slots: number
  /** Starts that may still be granted ahead; each takes a slot too. */
  ahead: number
  /** `ahead` when the decision began. */
  readonly aheadAtMost: number
  /** At equal priority the unlimited lane and the other lanes alternate; true: the unlimited lane is next. */
  unlimitedNext: boolean
  /** The last open lane that was read, if there are more: those come before all that rank behind it. */
  lastRead: TurnRank | null = null
  readonly #read: UnlimitedLaneReader
  readonly #heads: Head[] = []
  #next = 0
  #ended = false

  constructor(
    queue: number,
    ownQueue: number,
    slots: number,
    buckets: readonly Charge[],
    unlimitedNext: boolean,
    read: UnlimitedLaneReader,
    ahead = 0,
  ) {
    this.ahead = ahead
    this.aheadAtMost = ahead
    this.queue = queue
    this.ownQueue = ownQueue
    this.slots = slots
    this.buckets = buckets
    this.unlimitedNext = unlimitedNext
    this.#read = read
  }

  /** The first job of the unlimited lane; null: the lane is empty. */
  get unlimitedHead(): Head | null {
    if (this.#next >= this.#heads.length && !this.#ended) {
      const heads = this.#read(this.queue, this.#heads.length, this.slots)
      this.#heads.push(...heads)
      this.#ended = heads.length < this.slots
    }
    return this.#heads[this.#next] ?? null
  }

  /** Whether the unlimited lane precedes a lane whose head has this priority, and the lanes that were not read. */
  unlimitedBefore(priority: number): boolean {
    if (this.slots === 0) return false
    const head = this.unlimitedHead
    const others = this.lastRead ? Math.max(priority, this.lastRead.priority) : priority
    return head !== null && (head.priority > others || (head.priority === others && this.unlimitedNext))
  }

  /** Whether lanes that were not read may come before this one. */
  isBehindUnread(lane: TurnRank): boolean {
    return this.slots > 0 && this.lastRead !== null && rank(lane, this.lastRead) > 0
  }

  /** Sets the last lane read, unless an earlier one is set. @param last undefined: there are no more lanes */
  readUntil(last: TurnRank | undefined): void {
    if (!last || (this.lastRead && rank(this.lastRead, last) <= 0)) return
    const { id, priority, turn, head } = last
    this.lastRead = { id, priority, turn, head }
  }

  /** Takes the first of the unlimited lane. */
  shiftUnlimited(): void {
    this.#next++
    this.unlimitedNext = false
  }

  /**
   * When the queue's own buckets admit a job; null: now.
   * @param priority the job's own priority; null: the queue has no buckets of its own.
   */
  closedUntilUs(nowUs: number, priority: number | null): number | null {
    let untilUs: number | null = null
    for (const { bucket, weight } of this.buckets) {
      const denied = deniedUntilUs(bucket, weight, nowUs, priority)
      if (denied !== null) untilUs = Math.max(untilUs ?? denied, denied)
    }
    return untilUs
  }

  /** The queue's own buckets that let nothing start before a permit returns. */
  outOfPermits(nowUs: number, priority: number | null): Bucket[] {
    const out = this.buckets.filter(({ bucket, weight }) => deniedUntilUs(bucket, weight, nowUs, priority) === NEVER_US)
    return out.map(({ bucket }) => bucket)
  }
}
