import { keptBack } from '../limits/headroom.ts'
import { type Bucket, deniedUntilUs, drops, type Lane, NEVER_US, weightOf } from './lane.ts'
import { isFull, type Rejection } from './refusal.ts'

/** A lane that waits on another bucket and needs one that drops, with its first job's need there. */
export interface WatchedLane {
  /** The units of the start, plus those that must remain after it. */
  readonly need: number
  readonly lane: () => Lane
}

/** The most lanes of one bucket that a decision examines. If all are refused, another decision follows at once. */
export const WATCHED_AT_MOST = 64

/** Whether a lane waits elsewhere although it needs this bucket. */
export function waitsElsewhere(lane: Lane, bucket: Bucket): boolean {
  return lane.state === 'waiting' && lane.on !== bucket && lane.buckets.includes(bucket)
}

/** The dropping buckets of a waiting lane, with its first job's need of each; null: none of its buckets drops. */
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
  /**
   * The claimer's lanes that wait elsewhere and need a dropping bucket, the greatest need first; at most
   * `WATCHED_AT_MOST`.
   */
  watched(bucket: Bucket): readonly WatchedLane[]
  /** Whether a lane of any queue does so after this decision. */
  isWatched(bucket: Bucket): boolean
}

/**
 * Finds lanes that wait on other buckets and need more than a dropping bucket has left. They wait in vain, so the same
 * decision examines them.
 */
export class DropWatch {
  readonly #nowUs: number
  /** Dropping buckets that changed since their lanes elsewhere were examined. */
  readonly #changed = new Set<Bucket>()
  /** Buckets with lanes left for the next decision. */
  readonly #left = new Set<Bucket>()

  constructor(nowUs: number) {
    this.#nowUs = nowUs
  }

  note(bucket: Bucket): void {
    if (drops(bucket)) this.#changed.add(bucket)
  }

  /**
   * Examines the lanes that need more than their bucket has left. @returns whether some remain
   * @param drop ends the first job of a lane if its buckets refuse and drop it
   */
  look(source: WatchSource, drop: (lane: Lane) => void, rejections: readonly Rejection[]): boolean {
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
    drop: (lane: Lane) => void,
    rejections: readonly Rejection[],
  ): boolean {
    let dropped = false
    for (const { need, lane } of watched) {
      if (!refusesNow(bucket, need, this.#nowUs)) return false
      if (isFull(rejections)) return true
      const waiting = lane()
      if (waitsElsewhere(waiting, bucket)) dropped = dropAll(waiting, drop, rejections) || dropped
    }
    return isFull(rejections) || (dropped && watched.length === WATCHED_AT_MOST)
  }

  /** When a claim must examine a bucket without a wait list; null: never. */
  wakeAtUs(bucket: Bucket, source: WatchSource): number | null {
    if (this.#left.has(bucket)) return this.#nowUs
    return drops(bucket) && source.isWatched(bucket) ? NEVER_US : null
  }
}

/** Drops the first jobs of a lane, up to one that is not refused. @returns whether it dropped any */
function dropAll(lane: Lane, drop: (lane: Lane) => void, rejections: readonly Rejection[]): boolean {
  const { length } = rejections
  for (let before = -1; before < rejections.length && !isFull(rejections);) {
    before = rejections.length
    drop(lane)
  }
  return rejections.length > length
}

/** Whether a bucket refuses this many units now. Then it also refuses more of them. */
export function refusesNow(bucket: Bucket, need: number, nowUs: number): boolean {
  return deniedUntilUs(bucket, need, nowUs, null) !== null
}
