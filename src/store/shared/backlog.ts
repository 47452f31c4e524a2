import type { BucketBacklog } from '../contract/waits.ts'
import type { StoredBucket } from './stored-bucket.ts'

/** The jobs that wait for one bucket, with their units and given priorities. */
export type BacklogRow = [
  bucket: number,
  jobs: number,
  units: number,
  least: number,
  most: number,
  lowest: number,
  highest: number,
]

/** The backlog of each of these buckets; a bucket without a row has none. */
export function backlogs(buckets: readonly StoredBucket[], rows: readonly BacklogRow[]): BucketBacklog[] {
  const found = new Map(rows.map((row) => [row[0], row]))
  return buckets.map(({ id, key, policy, state, active }) => {
    const [, jobs, units, least, most, lowest, highest] = found.get(id) ?? [id, 0, 0, 1, 1, 0, 0]
    return { key, policy, state, active, jobs, units, even: least === most, lowest, highest }
  })
}
