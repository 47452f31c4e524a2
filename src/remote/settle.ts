import { extraOf } from '../jobs/job-extra.ts'
import type { Clock } from '../base/clock.ts'
import { persist } from '../base/persist.ts'
import type { GrantedJob } from '../jobs/job.ts'
import type { SettleResult, Settlement } from '../jobs/settlement.ts'
import { isFinal, type JobState } from '../jobs/job-state.ts'
import type { JobDetails } from '../store/contract/remote-jobs.ts'
import { FAILURES_KEPT } from './fetch-room.ts'
import type { FetchedJob } from './joined-claims.ts'
import type { RemoteFeedback } from './feedback.ts'
import type { Store } from '../store/contract/store.ts'
import { attemptBack } from '../store/shared/settle-once.ts'
import { type Failure, storedFailure } from './retry.ts'
import { endOf } from './times.ts'

/** The holder that a request claims for a run. Absent fields are not compared. */
export interface Holder {
  readonly worker?: string | undefined
  readonly attempt?: number | undefined
  /** Returns whether the caller may see the job. An invisible job is reported as missing. */
  readonly sees?: (job: JobDetails) => boolean
  /** Feedback on the budgets of the run, sent with its end. */
  readonly feedback?: RemoteFeedback | undefined
}

/** The result of settling a job by its id. */
export type RemoteSettled =
  | { readonly kind: 'settled'; readonly before: JobDetails; readonly after: JobDetails }
  | { readonly kind: 'missing' }
  /** The job is not active, or another holder runs it. */
  | { readonly kind: 'refused'; readonly state: JobState; readonly why: 'state' | 'holder' }

/** Computes the settlement of a run from its job. */
export type SettlementOf = (job: JobDetails, store: Store) => Settlement | Promise<Settlement>

/**
 * While the store is in trouble, a settlement is repeated until the lease of its run ends, within these bounds. Its
 * caller waits.
 */
const LEAST_PATIENCE_MS = 10_000
const MOST_PATIENCE_MS = 120_000

/** The engine's parts that settle a run. */
export interface SettlePlace {
  readonly store: Store
  readonly clock: Clock
  /** Called after the store has refused, before the next try. */
  readonly refused: () => void
}

/** The end of a settlement: its answer, and what was written. */
export interface RunSettled {
  readonly answer: RemoteSettled
  readonly settlement?: Settlement
  readonly settled?: Extract<SettleResult, { kind: 'settled' }>
}

/** Settles the run of a job if the caller holds it. @param before the job as it was read */
export async function settleById(
  place: SettlePlace,
  before: JobDetails | null,
  holder: Holder,
  settlementOf: SettlementOf,
): Promise<RunSettled> {
  if (!before || holder.sees?.(before) === false) return { answer: { kind: 'missing' } }
  if (before.state !== 'active' || before.worker === null)
    return { answer: { kind: 'refused', state: before.state, why: 'state' } }
  if (!isHolder(before, holder)) return { answer: { kind: 'refused', state: before.state, why: 'holder' } }
  const settled = await settleRun(place, before, settlementOf)
  if (settled) return settled
  const now = await place.store.details(before.id)
  if (!now) return { answer: { kind: 'missing' } }
  return { answer: { kind: 'refused', state: now.state, why: now.state === 'active' ? 'holder' : 'state' } }
}

/** Settles a run that was handed out here, without a read. Null: the store has to say more of it. */
export async function settleHanded(
  place: SettlePlace,
  run: JobDetails | null,
  holder: Holder,
  settlementOf: SettlementOf,
): Promise<RunSettled | null> {
  if (!run || holder.sees?.(run) === false || !isHolder(run, holder) || endOf(run) <= place.store.nowUs()) return null
  return settleRun(place, run, settlementOf)
}

/** Writes the settlement of a run. Null: the run has ended before. */
async function settleRun(
  { store, clock, refused }: SettlePlace,
  before: JobDetails,
  settlementOf: SettlementOf,
): Promise<RunSettled | null> {
  const settlement = await settlementOf(before, store)
  const { worker, startedUs } = before
  const run = startedUs === null ? settlement : { ...settlement, startedUs }
  const leftMs = Math.min((endOf(before) - store.nowUs()) / 1000, MOST_PATIENCE_MS)
  const settled = await persist(
    clock,
    Math.max(leftMs, LEAST_PATIENCE_MS),
    (again) => store.settle(worker ?? 0, run, again),
    refused,
  )
  if (settled.kind === 'lost') return null
  const { state, atUs } = settled
  // An earlier try does not say when it was, and may have deleted the job. A failed read must not report it as failed.
  const stored = atUs === undefined ? await store.details(before.id).catch(() => null) : null
  const after = stored ?? settledDetails(before, settlement, state, atUs ?? store.nowUs(), clock.now())
  return { answer: { kind: 'settled', before, after }, settlement, settled }
}

/**
 * Returns whether a caller may settle a run. All fields that it names must match, and only an engine settles its own
 * runs.
 */
export function isHolder(job: JobDetails, { worker, attempt }: Holder): boolean {
  if (job.engineRuns) return false
  return (worker === undefined || worker === job.workerName) && (attempt === undefined || attempt === job.attempt)
}

/** The failure of an overdue run. */
export function timedOut(run: JobDetails): Failure {
  const ms = (run.timeoutUs ?? 0) / 1000
  return { code: 'timeout', message: `The attempt took longer than its timeout of ${ms} ms.`, retryable: true }
}

/** The bucket that a push-back closes: that of the job's first limit at its enqueue, otherwise of any that it uses. */
export async function firstUse(
  store: Store,
  job: JobDetails,
): Promise<{ readonly limit: string; readonly key: string } | null> {
  const { limit } = extraOf(job)
  return limit ?? (await store.explain(job.id))?.uses[0] ?? null
}

/** The settlement of a push-back: the bucket closes for that time, or without a bucket the job is rescheduled. */
export function pushedBack(
  { seq, attempt }: JobDetails,
  failure: Failure,
  use: { readonly limit: string; readonly key: string } | null,
  closedForUs: number,
): Settlement {
  const error = storedFailure(failure)
  return { seq, attempt, kind: 'push-back', limit: use?.limit ?? null, key: use?.key ?? '', closedForUs, error }
}

/** A job as the settlement of its run leaves it, except for its progress and its place in the dead letter. */
function settledDetails(
  before: JobDetails,
  settlement: Settlement,
  state: JobState,
  atUs: number,
  nowMs: number,
): JobDetails {
  const error = 'error' in settlement ? settlement.error : null
  const back = attemptBack(settlement) > 0
  const failed = error && !back ? [...before.errors, { ...error, attempt: before.attempt, atUs }] : before.errors
  const waitsUs =
    'delayUs' in settlement ? settlement.delayUs : 'closedForUs' in settlement ? settlement.closedForUs : 0
  const { parentResults: _results, ...job } = before
  return {
    ...job,
    state,
    attempt: before.attempt - (back ? 1 : 0),
    pushedBack: settlement.kind === 'snooze' ? 1 : back ? before.pushedBack + 1 : 0,
    result: settlement.kind === 'complete' ? settlement.result : null,
    error: error ?? before.error,
    errors: failed.slice(-FAILURES_KEPT),
    sinceUs: atUs,
    dueUs: state === 'retryable' ? atUs + waitsUs : state === 'scheduled' ? nowMs * 1000 + waitsUs : null,
    finishedUs: isFinal(state) ? atUs : null,
    worker: null,
    workerName: null,
    engineRuns: false,
  }
}

/** A stored job as its current run. */
export function asRun(job: JobDetails): GrantedJob {
  const { flow: _flow, ...run } = job
  return { ...run, startedUs: job.startedUs ?? job.createdUs, availableUs: job.createdUs, waitedFor: null, uses: [] }
}

/**
 * Fetched jobs that their worker may still run. A run whose time is over is left out: its job may belong to another
 * worker by now.
 */
export function handed(fetched: readonly FetchedJob[], nowUs: number): JobDetails[] {
  return fetched.flatMap(({ job }) => (endOf(job) > nowUs ? [job] : []))
}
