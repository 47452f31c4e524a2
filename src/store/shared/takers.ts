import type { GrantedJob } from '../../jobs/job.ts'
import type { JobDetails } from '../contract/remote-jobs.ts'
import type { Taker } from '../contract/remote-claims.ts'
import type { ClaimRequest } from '../contract/store.ts'
import { column, type Columns, columns } from './columns.ts'
import { errorOf, failuresOf } from './set-aside.ts'

/** The columns that a started job's details need beside those of any claim. */
export interface StartedFields {
  readonly seq: number
  readonly due: number
  readonly expires: number | null
  readonly leaseUs: number | null
  readonly leasedUs: number | null
  readonly timeoutUs: number | null
  readonly error: string | null
  readonly errors: string | null
  readonly progress: string | null
}

/** These columns, from a row of `jobs`. @param errors the errors of a job as the text of a JSON array */
export function startedColumns(errors: string): Columns<StartedFields> {
  return columns({
    seq: column<number>(),
    due: column<number>(),
    expires: column<number | null>(),
    leaseUs: column<number | null>('lease'),
    leasedUs: column<number | null>('leased'),
    timeoutUs: column<number | null>('timeout'),
    error: column<string | null>(),
    errors: column<string | null>(errors),
    progress: column<string | null>(),
  })
}

/** The taker of each start, in order: to each as many as it has slots. */
export function dealt({ takers }: ClaimRequest): readonly Taker[] {
  return (takers ?? []).flatMap((taker) => Array.from({ length: taker.slots }, () => taker))
}

/** The same claim for its first taker alone: budgets of a worker's own need a claim for each. */
export function firstTakerOf(request: ClaimRequest): ClaimRequest {
  const [first] = request.takers ?? []
  if (!first) return request
  return { ...request, takers: [first], queues: request.queues.map(({ queue }) => ({ queue, slots: first.slots })) }
}

/** A job with all its stored details, as its start leaves it. */
export function startedDetails(job: GrantedJob, fields: StartedFields, { worker, name }: Taker): JobDetails {
  const { due, expires, leaseUs, leasedUs, timeoutUs, error, errors, progress } = fields
  const { seq, id, task, queue, priority, input, attempt, maxAttempts, pushedBack, createdUs, extra } = job
  const { availableUs, startedUs, occurrence, flow } = job
  return {
    seq,
    id,
    task,
    queue,
    state: 'active',
    priority,
    input,
    result: null,
    error: error === null ? null : errorOf(error),
    attempt,
    maxAttempts,
    createdUs,
    dueUs: due,
    startedUs,
    finishedUs: null,
    extra,
    throttledUntilUs: null,
    ...(occurrence && { occurrence }),
    ...(flow && { flow: { id: flow.id, node: flow.node, callback: flow.callback } }),
    sinceUs: availableUs,
    expiresMs: expires === null ? null : expires / 1000,
    worker,
    workerName: name,
    engineRuns: false,
    pushedBack,
    leaseUs,
    leasedUs,
    timeoutUs,
    errors: errors === null ? [] : failuresOf(errors),
    progress,
    deadLetter: false,
    keptUntilUs: null,
    ...(flow && { parentResults: flow.parentResults }),
  }
}
