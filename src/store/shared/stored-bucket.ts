import type { Bucket } from '../../policy/admission/lane.ts'

/** A limit of scope `worker` has buckets of its own for each registration of a worker; the fleet's bucket then only stands for all of them. */
export const FLEET = 0

/** A bucket of the store within one transaction. */
export interface StoredBucket extends Bucket {
  /** Whose own it is; 0: the fleet's. */
  readonly worker: number
  /** Lanes that need it: one that many need is shared, and its lines are grouped by it. */
  readonly lanes: number
  /** `wakeAtUs` as it was loaded. */
  readonly wokeAtUs: number | null
  /** Jobs that waited for it and have started since it was last told of; below 0: so many were told of before they started. */
  deferred: number
  /** When it was last told of that jobs wait for it; null: nobody waits. */
  toldUs: number | null
  /** `deferred` or `toldUs` changed. */
  counted: boolean
}

/** What is told of a bucket: its limit and key, and whose it is unless it is the fleet's. */
export function namesOf(bucket: { readonly limit: string; readonly key: string; readonly worker: number }): {
  limit: string
  key: string
  worker?: number
} {
  const { limit, key, worker } = bucket
  return worker === FLEET ? { limit, key } : { limit, key, worker }
}
