import type { JobState } from '../../jobs/job-state.ts'

/** Stored numbers of job states; the schema's partial indexes name 0, 1 and 4. */
export const STATE: {
  readonly scheduled: 0
  readonly available: 1
  readonly active: 2
  readonly completed: 3
  readonly retryable: 4
  readonly pending: 5
  readonly cancelled: 6
  readonly discarded: 7
} = { scheduled: 0, available: 1, active: 2, completed: 3, retryable: 4, pending: 5, cancelled: 6, discarded: 7 }

const NAMES = Object.keys(STATE) as JobState[]

/** The name of a stored state. */
export function stateName(stored: number): JobState {
  const name = NAMES[stored]
  if (!name) throw new RangeError(`No job state is stored as ${stored}`)
  return name
}

/** States in which a job has not ended. */
export const LIVE_STATES: string = `${STATE.scheduled}, ${STATE.available}, ${STATE.active}, ${STATE.retryable}, ${STATE.pending}`

/** Whether a job in this stored state has ended. */
export function isEnd(stored: number): boolean {
  return stored === STATE.completed || stored === STATE.cancelled || stored === STATE.discarded
}

/**
 * Stored numbers of lane states; the schema's partial indexes name 1 to 4. `spread`: it has jobs, but each worker has a
 * view of it, and the views wait. `parked`: none of the claimers that read it lists its jobs' tasks (`passed`).
 */
export const LANE: {
  readonly empty: 0
  readonly open: 1
  readonly waiting: 2
  readonly spread: 3
  readonly parked: 4
} = { empty: 0, open: 1, waiting: 2, spread: 3, parked: 4 }
