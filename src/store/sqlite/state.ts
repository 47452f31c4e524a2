import type { JobState } from '../../jobs/job-state.ts'

/** Job states as they are stored; the schema's partial indexes name 0, 1 and 4. */
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

/**
 * Which stored jobs are shown in one of these states, and what to bind to that: a job that a limit has put off waits in its lane, and
 * is shown as scheduled until its expected start.
 */
export function shownIn(
  states: readonly JobState[],
  nowUs: number,
): { readonly where: string; readonly values: number[] } {
  const scheduled = states.includes('scheduled')
  if (scheduled === states.includes('available'))
    return { where: `state IN (${states.map((state) => STATE[state]).join(', ')})`, values: [] }
  const rest = states.filter((state) => state !== 'available').map((state) => STATE[state])
  const waiting = scheduled ? 'booked > ?' : '(booked IS NULL OR booked <= ?)'
  return { where: `(state IN (${rest.join(', ')}) OR (state = ${STATE.available} AND ${waiting}))`, values: [nowUs] }
}

/** States in which a job has not ended. */
export const LIVE_STATES: string = `${STATE.scheduled}, ${STATE.available}, ${STATE.active}, ${STATE.retryable}, ${STATE.pending}`

/** Lane states as they are stored; the schema's partial indexes name 1, 2 and 3. `spread`: each worker has a view of it (views.ts). */
export const LANE: { readonly empty: 0; readonly open: 1; readonly waiting: 2; readonly spread: 3 } = {
  empty: 0,
  open: 1,
  waiting: 2,
  spread: 3,
}
