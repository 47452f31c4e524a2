import type { Bucket, Lane } from './lane.ts'

/** A bucket that at least this many lanes need has groups in the wait lists of other buckets. */
const SHARED_BY = 16

/**
 * Whether a bucket tells the group of a lane that waits on another one: many lanes need it, and it refuses some now, of
 * which one deputy can shadow such a group. A bucket that refuses nothing has no deputies, and would only split the list.
 */
export function isGroupedBy(lane: Lane, bucket: Bucket): boolean {
  if (bucket === lane.on || bucket.lanes < SHARED_BY || bucket.wakeAtUs === null) return false
  // A start within its guarantee does not wait for a deputy without one.
  return !lane.buckets.some(({ policy }) => policy?.of?.limit === bucket.limit)
}
