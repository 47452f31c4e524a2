import type { GrantedJob } from '../../jobs/job.ts'
import type { Grant } from '../../policy/admission/queue-slots.ts'
import type { Decision } from './decision.ts'
import { grantedJob } from '../shared/claim-answer.ts'
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

/** A started job for its worker. `grant`: a decision let it start; absent: no limit applies. */
export function toAdmitted(row: WrittenRow, nowUs: number, grant?: Grant, decision?: Decision): GrantedJob {
  const [seq, id, task, queue, priority, input, attempt, maxAttempts, pushedBack, createdUs, extra, ...of] = row
  const [schedule, occurs, , availableUs] = of
  const job = { seq, id, task, queue, priority, input, attempt, maxAttempts, pushedBack, createdUs, extra, availableUs }
  return grantedJob({ ...job, ...occurrenceOf(schedule, occurs) }, nowUs, grant, decision)
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
