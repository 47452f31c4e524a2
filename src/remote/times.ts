import { type JobDetails, TIMEOUT_GRACE_US } from '../store/contract/remote-jobs.ts'

/**
 * The instant, on the store's clock, at which a run must have ended or shown that it lives; Infinity: it does not run.
 */
export function endOf({ state, dueUs, timeoutUs, startedUs }: JobDetails): number {
  if (state !== 'active') return Infinity
  return Math.min(
    dueUs ?? Infinity,
    timeoutUs === null || startedUs === null ? Infinity : startedUs + timeoutUs + TIMEOUT_GRACE_US,
  )
}

/** Returns whether a job has due work that no process has done yet. @param nowMs wall clock @param nowUs the store's */
export function isStale(job: JobDetails, nowMs: number, nowUs: number): boolean {
  if (job.state === 'scheduled') return job.dueUs !== null && job.dueUs <= nowMs * 1000
  if (job.state === 'available') return job.expiresMs !== null && job.expiresMs < nowMs
  if (job.state === 'retryable') return (job.dueUs ?? Infinity) <= nowUs
  return endOf(job) <= nowUs
}
