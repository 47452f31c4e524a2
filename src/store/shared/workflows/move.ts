import type { Access } from '../sql.ts'
import type { JobError } from '../../../jobs/job-error.ts'
import type { JobState } from '../../../jobs/job-state.ts'
import type { Settlement } from '../../../jobs/settlement.ts'
import { type FlowMove, MAX_FLOW_BYTES, MAX_FLOW_DEPTH, MAX_FLOW_STEPS } from '../../../jobs/workflow.ts'
import { giveBack } from '../bucket-change.ts'
import { ask, type Reading } from '../reading.ts'
import type { SettleRequest } from '../settle-once.ts'
import { MoveBatch } from './move-batch.ts'
import { type FlowJob, holds, lockRuns, movedBefore, type MoveRequest, type NextSettlement } from './runs.ts'
import { keptOf } from './steps.ts'

/** The outcome of a settlement that moves a job. `instead`: the store settles the run so, in the same transaction. */
export type Moved =
  | { readonly kind: 'written'; readonly state: JobState }
  | { readonly kind: 'lost' }
  | { readonly kind: 'instead'; readonly settlement: Settlement }

const LOST: Moved = { kind: 'lost' }

interface Instead {
  readonly settlement: Settlement
  /** The steps and other changes of the move are written first. */
  readonly writes: boolean
}

/** Whether a settlement moves a job of a workflow flow. */
export function isMove(request: SettleRequest): request is MoveRequest {
  return request.settlement.kind === 'next'
}

/**
 * Writes settlements that move jobs of workflow flows, all in a number of statements that hardly grows with them. Of
 * one run there may be several that stay, before one that does not.
 */
export function* moveJobs(access: Access, requests: readonly MoveRequest[]): Reading<Moved[]> {
  const jobs = yield* lockRuns(access, requests)
  const answers: Moved[] = []
  const going: { readonly at: number; readonly job: FlowJob; readonly request: MoveRequest }[] = []
  for (const [at, request] of requests.entries()) {
    const job = jobs.get(request.settlement.seq)
    const before = request.again ? yield* movedBefore(access, request, job) : null
    if (before !== null) answers[at] = { kind: 'written', state: before }
    else if (!job || !holds(request, job)) answers[at] = LOST
    else {
      const instead = insteadOf(request, job)
      if (instead) answers[at] = { kind: 'instead', settlement: instead.settlement }
      if (!instead || instead.writes) going.push({ at, job, request })
    }
  }
  if (going.length === 0) return answers
  for (const { job, request } of going) yield* refund(access, job, request)
  const permits = going.flatMap(({ job, request }) => returned(job, request.settlement.move))
  if (permits.length > 0) yield* ask(() => access.returnPermits(permits))
  const batch = yield* MoveBatch.of(
    access,
    going.map(({ job, request }) => ({ job, move: request.settlement.move })),
  )
  for (const [n, { at }] of going.entries()) {
    const state = yield* batch.add(n)
    answers[at] ??= { kind: 'written', state }
  }
  yield* batch.write()
  return answers
}

/** Returns the units of a run whose step no code asked for. */
function* refund(access: Access, { started }: FlowJob, { worker, settlement }: MoveRequest): Reading<void> {
  const { then } = settlement.move
  if (then.kind !== 'withdraw') return
  for (const use of then.uses) if (use.weight > 0) yield* giveBack(access, use, started ?? 0, worker)
}

/** Permits that the run gives back by this move. */
function returned({ permits }: FlowJob, { then, keepPermits }: FlowMove): number[] {
  if (permits === null || keepPermits || (then.kind !== 'go' && then.kind !== 'park')) return []
  return JSON.parse(permits) as number[]
}

/** The settlement to make in place of a move; null: the job moves. It counts what the job remembers. */
function insteadOf({ settlement }: MoveRequest, job: FlowJob): Instead | null {
  const { move, seq, attempt, startedUs } = settlement
  const run = { seq, attempt, ...(startedUs !== undefined && { startedUs }) }
  const { then } = move
  if (then.kind === 'withdraw') return { settlement: { ...run, kind: 'cancel' }, writes: true }
  if (job.cancelling === 1 && then.kind !== 'stay' && then.kind !== 'end')
    return { settlement: { ...run, kind: 'cancel' }, writes: false }
  // The flow has its end: a timeout or a caller came first.
  if (job.cancelling === 1 && job.live === 0 && then.kind === 'end')
    return { settlement: { ...run, kind: 'cancel' }, writes: true }
  const error = refusal(job, move)
  if (error) return { settlement: { ...run, kind: 'discard', error }, writes: false }
  const end = endOfMove(settlement)
  return end && { settlement: end, writes: true }
}

/** The plain settlement of a run that ends by its move; null: it does not end. */
export function endOfMove({ move: { then }, seq, attempt, startedUs }: NextSettlement): Settlement | null {
  if (then.kind !== 'end') return null
  const run = { seq, attempt, ...(startedUs !== undefined && { startedUs }) }
  return then.error ? { ...run, kind: 'discard', error: then.error } : { ...run, kind: 'complete', result: then.result }
}

/** Counts the steps that a move writes; returns an error if its flow would remember too much. */
function refusal(job: FlowJob, move: FlowMove): JobError | null {
  if (job.depth + 1 > MAX_FLOW_DEPTH && move.children.some(({ attached }) => attached))
    return { code: 'flow.too_deep', message: `A flow has at most ${MAX_FLOW_DEPTH} levels of child flows.` }
  if (move.again !== null) {
    job.kept = 0
    job.bytes = 0
  }
  const { kept, bytes: of } = keptOf(move.steps)
  job.kept += kept
  job.bytes += of
  if (job.kind === 'machine' || job.node > 0 || move.again !== null) return null
  const [steps, bytes] = [job.kept + job.flowKept, job.bytes + job.flowBytes]
  if (steps <= MAX_FLOW_STEPS && bytes <= MAX_FLOW_BYTES) return null
  const message =
    steps > MAX_FLOW_STEPS
      ? `The flow would remember ${steps} steps. Expected at most ${MAX_FLOW_STEPS}; begin again with a new input.`
      : `The flow would remember ${bytes} bytes. Expected at most ${MAX_FLOW_BYTES}; return less from its steps.`
  return { code: 'flow.too_large', message }
}
