import type { JobState } from '../../jobs/job-state.ts'
import type { JobRecord } from '../../jobs/job.ts'
import { jobRecord, recordColumns } from './job-record.ts'
import type { Reading } from './reading.ts'
import { type Access, all, get as first, isUuid } from './sql.ts'
import { STATE } from './state.ts'

const RECORD = { id: recordColumns('id'), key: recordColumns('key') }

/** The store's clock, read once in a statement. */
export const NOW: string = '(SELECT sluice.now_us())'

/** One job by its id. */
export function* get({ db, laneKey, queueName }: Access, id: string): Reading<JobRecord | null> {
  const { list, read } = RECORD[laneKey]
  const row = isUuid(id) ? yield* first(db, `SELECT ${list} FROM sluice.jobs j WHERE id = $1::uuid`, id) : undefined
  return row ? jobRecord(read(row), queueName) : null
}

const ENDED = `SELECT e.value ->> 0 FROM json_array_elements($1::json) e LEFT JOIN sluice.jobs j ON j.id = (e.value ->> 0)::uuid
  WHERE j.state IS NULL OR j.state IN (${STATE.completed}, ${STATE.cancelled}, ${STATE.discarded})`

/** Those of these jobs that have ended, or are not stored. */
export function* ended({ db }: Access, ids: readonly string[]): Reading<string[]> {
  const asked = ids.filter(isUuid)
  const rows = asked.length === 0 ? [] : yield* all<[string]>(db, ENDED, JSON.stringify(asked.map((id) => [id])))
  return [...ids.filter((id) => !isUuid(id)), ...rows.map(([id]) => id)]
}

/**
 * The condition for jobs shown in one of these states. A job that a limit has rescheduled waits in its lane, and is
 * shown as scheduled until its expected start.
 * @param state the column; an expression keeps the planner from an index of one state
 */
export function shownIn(states: readonly JobState[], now: string = NOW, state = 'state'): string {
  if (states.length === 0) return 'false'
  const scheduled = states.includes('scheduled')
  if (scheduled === states.includes('available')) return `${state} IN (${states.map((each) => STATE[each]).join(', ')})`
  const rest = states.filter((each) => each !== 'available').map((each) => STATE[each])
  const waiting = `${state} = ${STATE.available} AND ${scheduled ? `booked > ${now}` : `(booked IS NULL OR booked <= ${now})`}`
  return rest.length === 0 ? `(${waiting})` : `(${state} IN (${rest.join(', ')}) OR (${waiting}))`
}
