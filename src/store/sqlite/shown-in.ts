import type { JobState } from '../../jobs/job-state.ts'
import { STATE } from '../shared/state.ts'

/**
 * The condition for jobs shown in one of these states, with its parameters. A job that a limit has rescheduled waits in
 * its lane, and is shown as scheduled until its expected start.
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
