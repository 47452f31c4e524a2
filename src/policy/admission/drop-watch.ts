import { keptBack } from '../limits/headroom.ts'
import { type Bucket, deniedUntilUs, drops, type Lane, NEVER_US, weightOf } from './lane.ts'
import { isFull, type Rejection } from './refusal.ts'

/** A lane that waits in another bucket's wait list and needs one that drops: what its first job asks of that one. */
export interface WatchedLane {
  /** Units, with those that must remain after its start. */
  readonly need: number
  readonly lane: () => Lane
}

/** Lanes of one bucket that are looked at in one decision; where all of them are refused, another follows at once. */
export const WATCHED_AT_MOST = 64

/** Whether a lane waits elsewhere although it needs this bucket. */
export function waitsElsewhere(lane: Lane, bucket: Bucket): boolean {
  return lane.state === 'waiting' && lane.on !== bucket && lane.buckets.includes(bucket)
}

/** The buckets that may drop a lane's jobs where it waits, and what its first job asks of each; null: none of its buckets drops. */
export function watchesOf(lane: Lane): [bucket: number, need: number][] | null {
  const dropping = lane.buckets.filter(drops)
  if (dropping.length === 0) return null
  const head = lane.heads[lane.next]
  return dropping
    .filter((bucket) => waitsElsewhere(lane, bucket))
    .map((bucket) => {
      if (!head || !bucket.policy) return [bucket.id, 1]
      return [bucket.id, weightOf(head, lane.buckets.indexOf(bucket), bucket) + keptBack(bucket.policy, head.given)]
    })
}

/** Reads which lanes wait elsewhere. */
export interface WatchSource {
  /** Lanes of the claimer's queues that wait elsewhere and need a bucket that drops, the greatest need first; at most `WATCHED_AT_MOST`. */
  watched(bucket: Bucket): readonly WatchedLane[]
  /** Whether any lane does, of any queue, as this decision leaves them. */
  isWatched(bucket: Bucket): boolean
}

/** What waits in other wait lists for a bucket that drops, and needs more than that has left, waits in vain: it is looked at in the same decision. */
export class DropWatch {
  readonly #nowUs: number
  /** Buckets that drop and were charged, or changed otherwise, since their lanes elsewhere were looked at. */
  readonly #changed = new Set<Bucket>()
  /** Buckets of which lanes are left to the next decision. */
  readonly #left = new Set<Bucket>()

  constructor(nowUs: number) {
    this.#nowUs = nowUs
  }

  note(bucket: Bucket): void {
    if (drops(bucket)) this.#changed.add(bucket)
  }

  /**
   * Has the lanes looked at that need more than there is; true: some are left.
   * @param drop ends what the buckets of a lane refuse; false: there is nothing
   */
  look(source: WatchSource, drop: (lane: Lane) => boolean, rejections: readonly Rejection[]): boolean {
    const buckets = [...this.#changed]
    this.#changed.clear()
    for (const bucket of buckets)
      if (this.#lookAt(bucket, source.watched(bucket), drop, rejections)) {
        this.#left.add(bucket)
        bucket.wakeAtUs = this.#nowUs
      }
    return this.#left.size > 0
  }

  #lookAt(
    bucket: Bucket,
    watched: readonly WatchedLane[],
    drop: (lane: Lane) => boolean,
    rejections: readonly Rejection[],
  ): boolean {
    let dropped = false
    for (const { need, lane } of watched) {
      if (!refusesNow(bucket, need, this.#nowUs)) return false
      if (isFull(rejections)) return true
      const waiting = lane()
      if (waitsElsewhere(waiting, bucket)) dropped = drop(waiting) || dropped
    }
    return isFull(rejections) || (dropped && watched.length === WATCHED_AT_MOST)
  }

  /** When a bucket is to be looked at by which nobody waits in a wait list; null: never. */
  wakeAtUs(bucket: Bucket, source: WatchSource): number | null {
    if (this.#left.has(bucket)) return this.#nowUs
    return drops(bucket) && source.isWatched(bucket) ? NEVER_US : null
  }
}

/** Whether a bucket refuses so many units now; then it refuses more of them too. */
export function refusesNow(bucket: Bucket, need: number, nowUs: number): boolean {
  return deniedUntilUs(bucket, need, nowUs, null) !== null
}
