/** Starts within a guarantee, as a decision treats them: `limits/guarantee.ts` has the mathematics. */
import { outsideUntil } from '../limits/guarantee.ts'
import { type Bucket, deniedUntilUs, type Head, type Lane, weightOf } from './lane.ts'
import type { TurnRank } from './turn-order.ts'

/** Above every level that ageing gives. A lane within its guarantee keeps its level, this much higher. */
export const LIFT: number = 2 ** 51

/** Whether a lane waits as one within its guarantee: before all others of the common limit, those of higher priority too. */
export function isGuaranteed({ priority }: Pick<Lane, 'priority'>): boolean {
  return priority > LIFT / 2
}

/** The level of a lane's head, by which it has its turn where its guarantee does not count. */
export function levelOfHead({ priority }: Pick<Lane, 'priority'>): number {
  return isGuaranteed({ priority }) ? priority - LIFT : priority
}

/** The level of a newcomer in a wait list. @param assured it is within its guarantee there */
export function levelOf(level: number, assured: boolean): number {
  return assured ? level + LIFT : level
}

/** Puts a waiting lane before all that wait outside their guarantee. */
export function lift(lane: Lane): void {
  lane.priority += LIFT
  lane.changed = true
}

/** Puts a lane back among those that wait outside their guarantee. */
export function sink(lane: Lane): void {
  lane.priority = levelOfHead(lane)
  lane.changed = true
}

/** Whether some bucket of a lane guarantees it a share of this bucket. */
export function hasGuaranteeIn(lane: Lane, common: Bucket): boolean {
  return lane.buckets.some(({ policy }) => policy?.of?.limit === common.limit)
}

/** Whether a head may start within its guarantee in this common bucket now. Of several guarantees one is enough. */
export function isWithin(lane: Lane, head: Head | null, common: Bucket, nowUs: number): boolean {
  if (!head) return false
  return lane.buckets.some((bucket, i) => {
    const of = bucket.policy?.of
    if (of?.limit !== common.limit) return false
    return outsideUntil(of, bucket.state, bucket.active, nowUs, weightOf(head, i, bucket)) === null
  })
}

/**
 * When a common bucket admits a job at the soonest that it refuses now: its guarantee may come back before the units
 * that others must leave.
 * @param weightIn the cost of the job in one of the buckets
 */
export function soonestUs(
  buckets: readonly Bucket[],
  weightIn: (bucket: Bucket, place: number) => number,
  common: Bucket,
  deniedUs: number,
  nowUs: number,
): number {
  let fromUs: number | null = null
  for (const [i, each] of buckets.entries()) {
    const of = each.policy?.of
    if (of?.limit !== common.limit) continue
    const againUs = outsideUntil(of, each.state, each.active, nowUs, weightIn(each, i)) ?? nowUs
    fromUs = Math.min(fromUs ?? Infinity, againUs)
  }
  if (fromUs === null) return deniedUs
  const aloneUs = deniedUntilUs(common, weightIn(common, buckets.indexOf(common)), nowUs, null) ?? nowUs
  // Its permits may return at any time.
  return Math.min(deniedUs, fromUs === Infinity ? aloneUs : Math.max(fromUs, aloneUs))
}

/** Whether a head goes before all without a guarantee in a bucket: it is within its own, or its lane waits as such. */
function goesFirst(lane: Lane, head: Head, bucket: Bucket, nowUs: number): boolean {
  return (isGuaranteed(lane) && lane.on === bucket) || isWithin(lane, head, bucket, nowUs)
}

/** Opens a lane: it stands in no wait list, and its own level counts. */
export function opens(lane: Lane): void {
  lane.priority = levelOfHead(lane)
  lane.on = null
  lane.deputyOf = null
  lane.state = 'open'
  lane.changed = true
}

/** The priority of a head in a bucket: within its guarantee it may take the units that others must leave. */
export function priorityIn(lane: Lane, head: Head, bucket: Bucket, nowUs: number): number | null {
  return goesFirst(lane, head, bucket, nowUs) ? null : head.given
}

/** The place of a lane in the wait list of a bucket. */
export function rankIn(lane: Lane, head: Head, bucket: Bucket, nowUs: number): TurnRank {
  const { id, turn, head: seq } = lane
  const level = levelOfHead(lane)
  return { id, turn, head: seq, priority: levelOf(level, goesFirst(lane, head, bucket, nowUs)) }
}

/** When a bucket alone admits a lane's head: now, or later. @param seen the bucket as the head sees it */
export function admittedAtUs(lane: Lane, head: Head, bucket: Bucket, nowUs: number, seen: Bucket = bucket): number {
  const weight = weightOf(head, lane.buckets.indexOf(bucket), bucket)
  return deniedUntilUs(seen, weight, nowUs, priorityIn(lane, head, bucket, nowUs)) ?? nowUs
}
