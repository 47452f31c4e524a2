import { type JobState, STATES } from '../../jobs/job-state.ts'
import type { QueueCount } from '../../store/contract/queues.ts'

/** Jobs by state; a state without jobs is 0. */
export type Counts = Readonly<Record<JobState, number>>

/** Adds up counts of any queues. */
export function countsOf(rows: readonly QueueCount[]): Counts {
  const counts = Object.fromEntries(STATES.map((state) => [state, 0])) as Record<JobState, number>
  for (const { state, jobs } of rows) counts[state] += jobs
  return counts
}

/** The number of jobs of a queue that have not started. */
export function depthOf(counts: Counts): number {
  return counts.available + counts.scheduled + counts.retryable
}
