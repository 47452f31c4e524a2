import type { Bucket, Lane } from '../../policy/admission/lane.ts'
import { isGroupedBy, SHARED_BY } from '../../policy/admission/wait-list.ts'

/** Deputies stand in a group of their own: they are never shadowed. */
export const DEPUTY = '!'

/** A wait list of no more groups than this is read fast, however small they are. */
const MANY_GROUPS = 64
/** Up to so many lanes of a group cost less to pass than the groups of their own that they would have. */
const LANES_A_GROUP = 64

/** Whether a wait list has many groups of few lanes: several limits at once refuse most of its lanes. */
export function isScattered({ lanes }: Bucket, groups: number): boolean {
  return groups > MANY_GROUPS && lanes < LANES_A_GROUP * groups
}

/**
 * The group of a lane within its wait list, as both stores write it: the numbers of the buckets that tell it.
 * @param scattered the list is so: fewer buckets tell the group, and more lanes share it
 */
export function overOf(lane: Lane, scattered = false): string {
  if (lane.deputyOf) return DEPUTY
  const telling = lane.buckets.filter((bucket) => isGroupedBy(lane, bucket))
  return (scattered ? sharedBySome(lane, telling) : telling)
    .map((bucket) => bucket.id)
    .sort((a, b) => a - b)
    .join(',')
}

/** Of these buckets those that most lanes need, as long as the lanes that need all of them are likely to be some. */
function sharedBySome({ on, buckets }: Lane, telling: readonly Bucket[]): Bucket[] {
  const all = Math.max(...buckets.map(({ lanes }) => lanes))
  let likely = on?.lanes ?? 0
  return telling
    .toSorted((a, b) => b.lanes - a.lanes || a.id - b.id)
    .filter(({ lanes }) => (likely *= lanes / all) >= SHARED_BY)
}

/** The buckets of a stored group. */
export function bucketsOver(over: string): number[] {
  return over === DEPUTY || over === '' ? [] : over.split(',').map(Number)
}
