import type { Admitted } from '../../jobs/job.ts'
import type { Admission } from '../../policy/admission.ts'
import { NEVER_US } from '../../policy/lane.ts'
import type { Grant } from '../../policy/queue-share.ts'
import type { Closed } from '../store.ts'
import type { StoredBucket } from './buckets.ts'
import { occurrenceOf } from '../series.ts'

/** A job that a claim started or ended. */
export type WrittenRow = readonly [
  seq: number,
  id: string,
  task: string,
  queue: string,
  priority: number,
  input: string,
  attempt: number,
  maxAttempts: number,
  pushedBack: number,
  createdUs: number,
  extra: string | null,
  schedule: string | null,
  occurs: number | null,
  state: number,
]

/** The buckets whose permits a start holds, as an array of the database; null: none. */
export function permitsOf(grant: Grant): string | null {
  const ids = grant.charged
    .filter(({ bucket }) => bucket.policy !== null && bucket.policy.concurrency !== null)
    .map(({ bucket }) => bucket.id)
  return ids.length === 0 ? null : `{${ids.join()}}`
}

/** A started job as its worker gets it. */
export function toAdmitted(grant: Grant, row: WrittenRow, startedUs: number): Admitted {
  const [seq, id, task, queue, priority, input, attempt, maxAttempts, pushedBack, createdUs, extra, schedule, occurs] =
    row
  const uses = grant.charged.map(({ bucket, weight }) => ({ limit: bucket.limit, key: bucket.key, weight }))
  return {
    seq,
    id,
    task,
    queue,
    priority,
    input,
    attempt,
    maxAttempts,
    pushedBack,
    createdUs,
    startedUs,
    extra,
    uses,
    ...occurrenceOf(schedule, occurs),
  }
}

/** Buckets in whose line the first lane came to stand. */
export function newlyClosed(admission: Admission, nameOf: (queue: number) => string): Closed[] {
  const closed: Closed[] = []
  for (const { bucket, joined } of admission.lines.values()) {
    if ((bucket as StoredBucket).wokeAtUs !== null || bucket.wakeAtUs === null) continue
    for (const lane of joined) {
      const weight = lane.heads[lane.next]?.weights?.[lane.buckets.indexOf(bucket)] ?? 1
      closed.push({
        limit: bucket.limit,
        key: bucket.key,
        queue: nameOf(lane.queue),
        wanted: weight,
        granted: bucket.granted,
        nextAtUs: bucket.wakeAtUs === NEVER_US ? null : bucket.wakeAtUs,
        defined: bucket.policy !== null,
      })
      break
    }
  }
  return closed
}

/** Buckets whose line has become empty. */
export function newlyReleased(buckets: Iterable<StoredBucket>): { limit: string; key: string }[] {
  const released: { limit: string; key: string }[] = []
  for (const bucket of buckets)
    if (bucket.wokeAtUs !== null && bucket.wakeAtUs === null) released.push({ limit: bucket.limit, key: bucket.key })
  return released
}
