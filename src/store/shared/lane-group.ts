import type { Lane } from '../../policy/admission/lane.ts'
import type { StoredBucket } from './stored-bucket.ts'

/**
 * A bucket that at least this many lanes need groups the lanes of other buckets' wait lists. One deputy can shadow such
 * a group.
 */
const SHARED_BY = 16

/** Deputies stand in a group of their own: they are never shadowed. */
export const DEPUTY = '!'

/** The group of a lane within its wait list: the other buckets that it shares with many lanes. */
export function overOf(lane: Lane): string {
  if (lane.deputyOf) return DEPUTY
  // A start within its guarantee does not wait for a deputy without one.
  const common = new Set(lane.buckets.map(({ policy }) => policy?.of?.limit))
  return lane.buckets
    .filter(({ limit }) => !common.has(limit))
    .filter((bucket) => bucket !== lane.on && (bucket as StoredBucket).lanes >= SHARED_BY)
    .map((bucket) => bucket.id)
    .sort((a, b) => a - b)
    .join(',')
}
