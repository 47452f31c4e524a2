import type { GrantedJob } from '../../jobs/job.ts'
import type { Grant } from '../../policy/admission/queue-slots.ts'
import type { Decision } from './decision.ts'
import { occurrenceOf } from '../shared/series.ts'

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
  since: number,
  flow: number | null,
]

/**
 * The buckets whose permits a start holds, as an array of the database; null: none. A queue's own bucket that has none stands there as
 * a negative number: a lane does not name it, and should its limit be given permits, this start has to hold one.
 */
export function permitsOf({ lane, charged }: Grant): string | null {
  const ids: number[] = []
  for (const { bucket } of charged) {
    if (!bucket.policy) continue
    if (bucket.policy.concurrency !== null) ids.push(bucket.id)
    else if (!lane?.buckets.includes(bucket)) ids.push(-bucket.id)
  }
  return ids.length === 0 ? null : `{${ids.join()}}`
}

/** A started job as its worker gets it; `grant` where a decision let it start, rather than that nothing limits it. */
export function toAdmitted(row: WrittenRow, nowUs: number, grant?: Grant, decision?: Decision): GrantedJob {
  const [
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
    extra,
    schedule,
    occurs,
    ,
    since,
  ] = row
  const held = grant?.lane && decision?.waitedOn(grant.lane)
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
    availableUs: since,
    startedUs: nowUs,
    waitedFor: held ? { limit: held.limit, key: held.key } : null,
    extra,
    uses: grant?.charged.map(({ bucket, weight }) => ({ limit: bucket.limit, key: bucket.key, weight })) ?? [],
    ...occurrenceOf(schedule, occurs),
  }
}

/** The jobs that a decision let start, in its order. */
export function admitted(grants: readonly Grant[], rows: readonly WrittenRow[], decision: Decision): GrantedJob[] {
  const bySeq = new Map(rows.map((row) => [row[0], row]))
  return grants.map((grant) => {
    const row = bySeq.get(grant.head.seq)
    if (!row) throw new RangeError(`Job ${grant.head.seq} was granted, but it was not started`)
    return toAdmitted(row, decision.nowUs, grant, decision)
  })
}
