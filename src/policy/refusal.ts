import { expectedStartUs } from './forecast.ts'
import { metBelow } from './headroom.ts'
import type { OnLimit } from './limit.ts'
import { type Bucket, type Head, type Lane, NEVER_US, type HeadSource, loadHeads } from './lane.ts'

/** Why a head cannot start now, and what becomes of it. */
export interface Refusal {
  /** The bucket that refuses longest. */
  readonly bucket: Bucket
  /** When that bucket would admit it; NEVER_US when a permit has to return first. */
  readonly untilUs: number
  /** `late`: it would start after its `maxWait`. */
  readonly behaviour: OnLimit | 'late'
}

/** One job that will not start now, and why. */
export interface Rejection {
  readonly head: Head
  readonly refusal: Refusal
}

/** Jobs of a lane that are looked through for those that come too late. */
const OVERDUE_AT_ONCE = 1000
const REJECTIONS_AT_MOST = 1000

/** No more can be rejected in one decision: another must follow at once. */
export function isFull(rejections: readonly Rejection[]): boolean {
  return rejections.length >= REJECTIONS_AT_MOST
}

/** What several refusing limits decide together: drop before late before reschedule before wait. */
export function refusalBehaviour(
  refusing: readonly Bucket[],
  lane: readonly Bucket[],
  head: Head,
  untilUs: number,
): Refusal['behaviour'] {
  if (refusing.some((bucket) => bucket.policy?.onLimit === 'drop')) return 'drop'
  if (untilUs === NEVER_US) return 'wait'
  if (untilUs > head.sinceUs + maxWaitUs(lane)) return 'late'
  return refusing.some((bucket) => bucket.policy?.onLimit === 'reschedule') ? 'reschedule' : 'wait'
}

/** The shortest `maxWait` of a lane's limits; Infinity when none has one. */
function maxWaitUs(lane: readonly Bucket[]): number {
  let shortest = Infinity
  for (const { policy } of lane)
    if (policy && policy.maxWaitUs !== null) shortest = Math.min(shortest, policy.maxWaitUs)
  return shortest
}

/** Takes out of a lane the jobs behind its refused head that cannot start in time either: they learn it now, not when their time is over. */
export function takeOverdue(lane: Lane, refusal: Refusal, source: HeadSource, nowUs: number): Rejection[] {
  if (maxWaitUs(lane.buckets) === Infinity) return []
  loadHeads(lane, source, OVERDUE_AT_ONCE)
  const late = [...overdue(lane, refusal, nowUs)]
  for (const { head } of late) lane.heads.splice(lane.heads.indexOf(head), 1)
  return late
}

/** Jobs behind a refused head that this bucket alone already makes later than their `maxWait`. */
function* overdue(lane: Lane, { bucket }: Refusal, nowUs: number): Generator<Rejection> {
  const { policy, state, active } = bucket
  if (!policy) return
  const at = lane.buckets.indexOf(bucket)
  const bound = maxWaitUs(lane.buckets)
  const line: number[] = []
  let highest = -Infinity
  for (const head of lane.heads.slice(lane.next)) {
    const weight = head.weights?.[at] ?? 1
    const even = line.every((each) => each === weight)
    highest = Math.max(highest, head.given)
    const met = metBelow({ policy, state }, head.given, highest)
    const untilUs = expectedStartUs(
      met.policy,
      met.state,
      active,
      nowUs,
      even ? { count: line.length + 1, weight } : [...line, weight],
    )
    if (untilUs !== null && untilUs > head.sinceUs + bound)
      yield { head, refusal: { bucket, untilUs, behaviour: 'late' } }
    else line.push(weight)
  }
}
