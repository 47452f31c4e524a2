import { extraOf } from '../jobs/job-extra.ts'
import type { Clock } from '../base/clock.ts'
import { persist } from '../base/persist.ts'
import type { GrantedJob, SettleResult, Settlement } from '../jobs/job.ts'
import type { JobState } from '../jobs/job-state.ts'
import type { JobDetails } from '../store/contract/remote-jobs.ts'
import type { RemoteFeedback } from './feedback.ts'
import type { Store } from '../store/contract/store.ts'
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
  | { readonly kind: 'settled'; readonly before: JobDetails; readonly after: JobDetails | null }
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

/** Settles the run of a job if the caller holds it. @param before the job as it was read */
export async function settleById(
  { store, clock, refused }: SettlePlace,
  before: JobDetails | null,
  holder: Holder,
  settlementOf: SettlementOf,
): Promise<{
  readonly answer: RemoteSettled
  readonly settlement?: Settlement
  readonly settled?: Extract<SettleResult, { kind: 'settled' }>
}> {
  if (!before || holder.sees?.(before) === false) return { answer: { kind: 'missing' } }
  if (before.state !== 'active' || before.worker === null)
    return { answer: { kind: 'refused', state: before.state, why: 'state' } }
  if (!isHolder(before, holder)) return { answer: { kind: 'refused', state: before.state, why: 'holder' } }
  const settlement = await settlementOf(before, store)
  const { worker, startedUs } = before
  const run = startedUs === null ? settlement : { ...settlement, startedUs }
  const leftMs = Math.min((endOf(before) - store.nowUs()) / 1000, MOST_PATIENCE_MS)
  const settled = await persist(
    clock,
    Math.max(leftMs, LEAST_PATIENCE_MS),
    (again) => store.settle(worker, run, again),
    refused,
  )
  if (settled.kind === 'settled') {
    // The settlement is written, so a failed read must not report it as failed.
    const after = await store.details(before.id).catch(() => ({ ...before, state: settled.state }))
    return { answer: { kind: 'settled', before, after }, settlement, settled }
  }
  const now = await store.details(before.id)
  if (!now) return { answer: { kind: 'missing' } }
  return { answer: { kind: 'refused', state: now.state, why: now.state === 'active' ? 'holder' : 'state' } }
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

/** A stored job as its current run. */
export function asRun(job: JobDetails): GrantedJob {
  const { flow: _flow, ...run } = job
  return { ...run, startedUs: job.startedUs ?? job.createdUs, availableUs: job.createdUs, waitedFor: null, uses: [] }
}

/**
 * Fetched jobs with the results that they receive. A run that was lost before its read is left out: its job may
 * belong to another worker by now.
 */
export async function handed(store: Store, jobs: readonly GrantedJob[]): Promise<JobDetails[]> {
  const details = await Promise.all(
    jobs.map(async ({ id, attempt, startedUs, flow }) => {
      const job = await store.details(id)
      if (job?.state !== 'active' || job.attempt !== attempt || job.startedUs !== startedUs) return null
      return flow ? { ...job, parentResults: flow.parentResults } : job
    }),
  )
  return details.filter((job) => job !== null)
}
