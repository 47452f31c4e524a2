import type { GrantedJob } from '../../jobs/job.ts'
import type { Grant } from '../../policy/admission/queue-slots.ts'
import type { Decision } from './decision.ts'
import { grantedJob } from '../shared/claim-answer.ts'
import { ERRORS } from '../shared/job-record.ts'
import { dealt, startedColumns, startedDetails } from '../shared/takers.ts'
import type { Taker } from '../contract/remote-claims.ts'
import type { Claim, ClaimRequest } from '../contract/store.ts'
import { occurrenceOf } from '../../jobs/series.ts'

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
  /** Of a claim with takers: the columns of a start as JSON, and the claim's id. */
  run: string | null,
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
    return toAdmitted(row, grant.startUs, grant, decision)
  })
}

const STARTED = startedColumns(ERRORS)
type Details = Pick<Claim, 'jobs' | 'details' | 'served'>

/** The jobs of a claim with takers, in their order, with all details. Without takers only the jobs. */
export function handedOut({ takers }: ClaimRequest, rows: readonly WrittenRow[], jobs: readonly GrantedJob[]): Details {
  if (!takers) return { jobs }
  const runs = new Map(rows.map((row) => [row[0], JSON.parse(row[16] ?? '[]') as readonly unknown[]]))
  const placeOf = new Map(takers.map(({ claimId }, place) => [claimId, place]))
  const place = ({ seq }: GrantedJob): number => placeOf.get(String(runs.get(seq)?.[9])) ?? 0
  // The server writes starts in an order of its own.
  const inOrder = [...jobs].sort((a, b) => place(a) - place(b))
  const details = inOrder.map((job) =>
    startedDetails(job, STARTED.read(runs.get(job.seq) ?? []), takers[place(job)] as Taker),
  )
  return { jobs: inOrder, details, served: takers.length }
}

/** For each start, in order: its worker and its claim; null: the claim has no takers. */
export function takersOf(request: ClaimRequest): [workers: readonly number[] | null, claims: readonly string[] | null] {
  if (!request.takers) return [null, null]
  const all = dealt(request)
  return [all.map(({ worker }) => worker), all.map(({ claimId }) => claimId)]
}
