import { BUCKET, bucketOf as bucketFrom, type StoredBucket, wallOffset } from '../shared/stored-bucket.ts'
import type { Statements } from '../../database/postgres.ts'
import type { Instant } from '../../jobs/series.ts'
import type { Timelines } from '../shared/timelines.ts'

/** The id of a bucket, which is created if new. */
export async function bucketId(db: Statements, limit: string, key: string, worker: number): Promise<number> {
  const use = JSON.stringify([[limit, key, worker]])
  const [ids] = (await db.get<[number[]]>('SELECT sluice.own_buckets($1::json)', use)) as [number[]]
  return ids[0] as number
}

/** The ids of the fleet's buckets, which are created if new. */
export async function bucketIds(
  db: Statements,
  names: readonly { readonly limit: string; readonly key: string }[],
): Promise<number[]> {
  const uses = JSON.stringify(names.map(({ limit, key }) => [limit, key]))
  return ((await db.get<[number[]]>('SELECT sluice.own_buckets($1::json)', uses)) as [number[]])[0]
}

/** A stored bucket, carried over to the limit's current policy. */
export function bucketOf(limits: Timelines, row: readonly unknown[], { nowUs, wallUs }: Instant): StoredBucket {
  const fields = BUCKET.read(row)
  return bucketFrom(fields, limits.timeline(fields.limit), nowUs, () => wallOffset(nowUs, wallUs))
}
