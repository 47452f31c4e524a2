import type { Elsewhere } from './elsewhere.ts'
import { priorityIn, soonestUs } from './guaranteed.ts'
import type { OnLimit } from '../limits/limit.ts'
import { type Bucket, deniedUntilUs, drops, type Head, type Lane, NEVER_US, weightOf } from './lane.ts'

/** Why a head cannot start now, and what becomes of it. */
export interface Refusal {
  /** The bucket that refuses longest; if any refusing bucket drops, the longest of those. */
  readonly bucket: Bucket
  /** When all buckets would admit the job; NEVER_US if a permit must return first. */
  readonly untilUs: number
  /** `late`: it would start after its `maxWait`. */
  readonly behaviour: OnLimit | 'late'
}

/** One job that will not start now, and why. */
export interface Rejection {
  readonly head: Head
  readonly refusal: Refusal
}

/** If one job of a lane is rejected, its next jobs usually are too, so they are read together. */
export const REJECTED_AT_ONCE = 64
const REJECTIONS_AT_MOST = 1000

/** No more can be rejected in one decision: another must follow at once. */
export function isFull(rejections: readonly Rejection[]): boolean {
  return rejections.length >= REJECTIONS_AT_MOST
}

/**
 * Returns the bucket that refuses a head longest, or that drops it, with the joint decision of the refusing policies.
 * Null: all buckets admit the head. @param aheadUntil until when an earlier lane in a bucket's wait list blocks the
 * head @param elsewhere the starts that need units of a backend
 */
export function refusalOf(
  lane: Lane,
  head: Head,
  nowUs: number,
  aheadUntil: (bucket: Bucket) => number | null,
  elsewhere?: Elsewhere,
): Refusal | null {
  let worst: Bucket | null = null
  let untilUs = -1
  let dropping: { readonly bucket: Bucket; readonly denied: number } | null = null
  const refusing: Bucket[] = []
  const instants: number[] = []
  for (const [i, bucket] of lane.buckets.entries()) {
    const seen = elsewhere?.seen(lane, head, bucket) ?? bucket
    const ownUs = deniedUntilUs(seen, weightOf(head, i, bucket), nowUs, priorityIn(lane, head, bucket, nowUs))
    const denied = ownUs ?? (elsewhere?.passes(lane, head, bucket) ? null : aheadUntil(bucket))
    if (denied === null) continue
    refusing.push(bucket)
    instants.push(denied)
    if (drops(bucket) && denied > (dropping?.denied ?? -1)) dropping = { bucket, denied }
    if (denied > untilUs) {
      untilUs = denied
      worst = bucket
    }
  }
  // Asked only of a head that would be late.
  const soonest = (): number => atSoonestUs(lane, head, refusing, instants, nowUs)
  return (
    worst && {
      bucket: dropping?.bucket ?? worst,
      untilUs,
      behaviour: refusalBehaviour(refusing, lane.buckets, head, untilUs, soonest),
    }
  )
}

/**
 * When the buckets that refuse a head may admit it at the soonest: a guarantee or the end of an override may come first.
 * @param instants when each of them admits it by the present rules
 */
function atSoonestUs(
  lane: Lane,
  head: Head,
  refusing: readonly Bucket[],
  instants: readonly number[],
  nowUs: number,
): number {
  const weightIn = (bucket: Bucket, place: number): number => weightOf(head, place, bucket)
  let us = nowUs
  for (const [i, bucket] of refusing.entries()) {
    const ownUs = soonestUs(lane.buckets, weightIn, bucket, instants[i] ?? nowUs, nowUs)
    us = Math.max(us, Math.min(ownUs, bucket.endsUs ?? Infinity))
  }
  return us
}

/**
 * The joint decision of several refusing limits, strongest first: drop, late, reschedule, wait.
 * @param soonest when it may start at the soonest: a job is late only if that is known; default: then
 */
export function refusalBehaviour(
  refusing: readonly Bucket[],
  lane: readonly Bucket[],
  head: Head,
  untilUs: number,
  soonest: () => number = () => untilUs,
): Refusal['behaviour'] {
  if (refusing.some(drops)) return 'drop'
  if (untilUs === NEVER_US) return 'wait'
  const lastUs = head.sinceUs + maxWaitUs(lane)
  if (untilUs > lastUs && soonest() > lastUs) return 'late'
  return !isPerWorker(lane) && refusing.some((bucket) => bucket.policy?.onLimit === 'reschedule')
    ? 'reschedule'
    : 'wait'
}

/** Another worker's own budget may admit a job that this worker's refuses, so the start is unknown. */
function isPerWorker(lane: readonly Bucket[]): boolean {
  return lane.some(({ policy }) => policy?.scope === 'worker')
}

/** The shortest `maxWait` of a lane's limits, in µs; Infinity if none has one. */
export function maxWaitUs(lane: readonly Bucket[]): number {
  if (isPerWorker(lane)) return Infinity
  let shortest = Infinity
  for (const { policy } of lane)
    if (policy && policy.maxWaitUs !== null) shortest = Math.min(shortest, policy.maxWaitUs)
  return shortest
}
