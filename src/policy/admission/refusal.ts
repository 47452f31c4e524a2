import type { OnLimit } from '../limits/limit.ts'
import { type Bucket, deniedUntilUs, drops, type Head, type Lane, NEVER_US, weightOf } from './lane.ts'

/** Why a head cannot start now, and what becomes of it. */
export interface Refusal {
  /** The bucket that refuses longest; of those that drop, where one does. */
  readonly bucket: Bucket
  /** When all buckets would admit it; NEVER_US when a permit has to return first. */
  readonly untilUs: number
  /** `late`: it would start after its `maxWait`. */
  readonly behaviour: OnLimit | 'late'
}

/** One job that will not start now, and why. */
export interface Rejection {
  readonly head: Head
  readonly refusal: Refusal
}

/** Where one job of a lane is rejected its next most often are too. */
export const REJECTED_AT_ONCE = 64
const REJECTIONS_AT_MOST = 1000

/** No more can be rejected in one decision: another must follow at once. */
export function isFull(rejections: readonly Rejection[]): boolean {
  return rejections.length >= REJECTIONS_AT_MOST
}

/**
 * The bucket that refuses a head longest, or the one that drops it, and what its policy and the others' that refuse make of that; null: all admit it.
 * @param aheadUntil until when somebody before it in the wait list of a bucket that would admit it holds it back
 */
export function refusalOf(
  lane: Lane,
  head: Head,
  nowUs: number,
  aheadUntil: (bucket: Bucket) => number | null,
): Refusal | null {
  let worst: Bucket | null = null
  let untilUs = -1
  let dropping: { readonly bucket: Bucket; readonly denied: number } | null = null
  const refusing: Bucket[] = []
  for (const [i, bucket] of lane.buckets.entries()) {
    const denied = deniedUntilUs(bucket, weightOf(head, i, bucket), nowUs, head.given) ?? aheadUntil(bucket)
    if (denied === null) continue
    refusing.push(bucket)
    if (drops(bucket) && denied > (dropping?.denied ?? -1)) dropping = { bucket, denied }
    if (denied > untilUs) {
      untilUs = denied
      worst = bucket
    }
  }
  return (
    worst && {
      bucket: dropping?.bucket ?? worst,
      untilUs,
      behaviour: refusalBehaviour(refusing, lane.buckets, head, untilUs),
    }
  )
}

/** What several refusing limits decide together: drop before late before reschedule before wait. */
export function refusalBehaviour(
  refusing: readonly Bucket[],
  lane: readonly Bucket[],
  head: Head,
  untilUs: number,
): Refusal['behaviour'] {
  if (refusing.some(drops)) return 'drop'
  if (untilUs === NEVER_US) return 'wait'
  if (untilUs > head.sinceUs + maxWaitUs(lane)) return 'late'
  return !isApart(lane) && refusing.some((bucket) => bucket.policy?.onLimit === 'reschedule') ? 'reschedule' : 'wait'
}

/** What this worker's own budget refuses another's may admit, so nobody can tell when a job of such a lane starts. */
function isApart(lane: readonly Bucket[]): boolean {
  return lane.some(({ policy }) => policy?.scope === 'worker')
}

/** The shortest `maxWait` of a lane's limits; Infinity when none has one. */
export function maxWaitUs(lane: readonly Bucket[]): number {
  if (isApart(lane)) return Infinity
  let shortest = Infinity
  for (const { policy } of lane)
    if (policy && policy.maxWaitUs !== null) shortest = Math.min(shortest, policy.maxWaitUs)
  return shortest
}
