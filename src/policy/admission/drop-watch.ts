import { keptBack } from '../limits/headroom.ts'
import { type Bucket, deniedUntilUs, drops, type Lane, NEVER_US, weightOf } from './lane.ts'
import { isGuaranteed } from './guaranteed.ts'
import { isFull, type Rejection } from './refusal.ts'

/** A lane that waits on another bucket and needs one that drops, with its first job's need there. */
export interface WatchedLane {
  /** The units of the start; where the bucket drops, plus those that must remain after it. */
  readonly need: number
  readonly lane: () => Lane
}

/** The most lanes of one bucket that a decision examines. If all are refused, another decision follows at once. */
export const WATCHED_AT_MOST = 64

/** Whether a lane waits elsewhere although it needs this bucket. */
export function waitsElsewhere(lane: Lane, bucket: Bucket): boolean {
  return lane.state === 'waiting' && lane.on !== bucket && lane.bucketIds.includes(bucket.id)
}

/**
 * The buckets of a waiting lane that must see it although it waits elsewhere, with its first job's need of each: those
 * that drop it, and those that guarantee a share of the limit that it waits for. Null: it has no bucket of these kinds.
 */
export function watchesOf(lane: Lane): [bucket: number, need: number][] | null {
  const watching = lane.buckets.filter((bucket) => drops(bucket) || bucket.policy?.of)
  if (watching.length === 0) return null
  const head = lane.heads[lane.next]
  return watching
    .filter((bucket) => waitsElsewhere(lane, bucket) && (drops(bucket) || comesToBeGuaranteed(lane, bucket)))
    .map((bucket) => {
      if (!head || !bucket.policy) return [bucket.id, 1]
      // A guarantee counts what a start pays: headroom belongs to the bucket's own rules.
      const kept = drops(bucket) ? keptBack(bucket.policy, head.given) : 0
      return [bucket.id, weightOf(head, lane.buckets.indexOf(bucket), bucket) + kept]
    })
}

/** Whether a lane waits for the common limit of which this bucket guarantees it a share later. */
export function comesToBeGuaranteed(lane: Lane, bucket: Bucket): boolean {
  return lane.on !== null && lane.on.limit === bucket.policy?.of?.limit && !isGuaranteed(lane)
}

/** Reads which lanes wait elsewhere. */
export interface WatchSource {
  /**
   * The claimer's lanes that wait elsewhere and need a dropping or guaranteeing bucket, the greatest need first; at most
   * `WATCHED_AT_MOST`. `anywhere`: the lanes of all queues.
   */
  watched(bucket: Bucket, anywhere?: boolean): readonly WatchedLane[]
  /** Whether a lane of any queue does so after this decision. */
  isWatched(bucket: Bucket): boolean
  /** The needs of the lanes of any queue that will be guaranteed a share of the limit that they wait for. */
  needsElsewhere(bucket: Bucket): readonly number[]
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

  readonly #slept = new Set<Bucket>()

  constructor(nowUs: number) {
    this.#nowUs = nowUs
  }

  /** A queue sleeps until a permit of its own bucket returns. */
  sleeps(bucket: Bucket): void {
    this.#slept.add(bucket)
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
    // A sleeping queue is in no wait list. NEVER_US makes the claim that returns a permit see that it waits.
    if (this.#slept.has(bucket)) return NEVER_US
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
