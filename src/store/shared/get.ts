import type { JobState } from '../../jobs/job-state.ts'
import type { JobQuery, JobRecord } from '../../jobs/job.ts'
import { jobRecord, recordColumns } from './job-record.ts'
import type { Reading } from './reading.ts'
import { type Access, all, get as first, isUuid, type SqlValue } from './sql.ts'
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

/** Jobs by state, queue, task and age, newest first; those of one flow in its order. */
export function* list({ db, laneKey, queueName, queues }: Access, query: JobQuery): Reading<JobRecord[]> {
  const values: SqlValue[] = []
  const place = (value: SqlValue): string => `$${values.push(value)}`
  const where = [`seq < ${place(query.before ?? Number.MAX_SAFE_INTEGER)}`]
  const { states, queue, task, flow } = query
  if (states) where.push(shownIn(states))
  if (queue !== undefined) where.push(queues((name) => `${name} = ${place(queue)}`))
  if (task !== undefined) where.push(`task = ${place(task)}`)
  if (flow !== undefined) {
    const id = place(isUuid(flow) ? flow : null)
    where.push(`flow = (SELECT f.seq FROM sluice.flows f WHERE f.id = ${id}::uuid)`)
    where.push(`node > ${place(query.afterNode ?? -1)}`)
  }
  const order = `ORDER BY ${flow === undefined ? 'seq DESC' : 'node'} LIMIT ${place(query.limit ?? 100)}`
  const record = RECORD[laneKey]
  const select = `SELECT ${record.list} FROM sluice.jobs j WHERE ${where.join(' AND ')} ${order}`
  return (yield* all(db, select, ...values)).map((row) => jobRecord(record.read(row), queueName))
}

/**
 * The condition for jobs shown in one of these states. A job that a limit has rescheduled waits in its lane, and is
 * shown as scheduled until its expected start.
 */
export function shownIn(states: readonly JobState[], now: string = NOW): string {
  if (states.length === 0) return 'false'
  const scheduled = states.includes('scheduled')
  if (scheduled === states.includes('available')) return `state IN (${states.map((state) => STATE[state]).join(', ')})`
  const rest = states.filter((state) => state !== 'available').map((state) => STATE[state])
  const waiting = `state = ${STATE.available} AND ${scheduled ? `booked > ${now}` : `(booked IS NULL OR booked <= ${now})`}`
  return rest.length === 0 ? `(${waiting})` : `(state IN (${rest.join(', ')}) OR (${waiting}))`
}
