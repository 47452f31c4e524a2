import type { Lane } from '../../policy/admission/lane.ts'
import { isGroupedBy } from '../../policy/admission/wait-list.ts'

/** Deputies stand in a group of their own: they are never shadowed. */
export const DEPUTY = '!'

/** The group of a lane within its wait list, as both stores write it: the numbers of the buckets that tell it. */
export function overOf(lane: Lane): string {
  if (lane.deputyOf) return DEPUTY
  return lane.buckets
    .filter((bucket) => isGroupedBy(lane, bucket))
    .map((bucket) => bucket.id)
    .sort((a, b) => a - b)
    .join(',')
}

/** The buckets of a stored group. */
export function bucketsOver(over: string): number[] {
  return over === DEPUTY || over === '' ? [] : over.split(',').map(Number)
}
