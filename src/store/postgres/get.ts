import type { Statements } from '../../database/postgres.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { JobQuery, JobRecord } from '../../jobs/job.ts'
import { jobRecord, type JobSource, recordColumns } from '../shared/job-record.ts'
import { isUuid } from '../shared/sql.ts'
import { STATE } from '../shared/state.ts'

/** PostgreSQL's names in queries on jobs. */
export const JOBS: JobSource = {
  schema: 'sluice.',
  lane: 'key',
  errors: `'[' || array_to_string(errors, ',') || ']'`,
}
/** The clocks of the server, before the columns of a job. */
export const CLOCKS = 'sluice.now_us(), sluice.wall_us()'

/** The clocks, and then the columns. */
export type Row = readonly [now: number, wall: number, ...columns: readonly unknown[]]

const RECORD = recordColumns(JOBS)
const SELECT = `SELECT ${CLOCKS}, ${RECORD.list} FROM sluice.jobs j`

/** One job by its id. */
export async function get(db: Statements, id: string): Promise<JobRecord | null> {
  const row = isUuid(id) ? await db.get<Row>(`${SELECT} WHERE id = $1::uuid`, id) : undefined
  return row ? toRecord(row) : null
}

/** Jobs by state, queue, task and age, newest first; those of one flow in its order. */
export async function list(db: Statements, query: JobQuery): Promise<JobRecord[]> {
  const where: string[] = ['seq < $1']
  const values: (string | number | number[] | null)[] = [query.before ?? Number.MAX_SAFE_INTEGER]
  if (query.states) {
    const states = values.push(query.states.map((state) => STATE[state]))
    where.push(`${shownAs(query.states)} = ANY ($${states}::int[])`)
  }
  if (query.queue !== undefined) where.push(`queue = $${values.push(query.queue)}`)
  if (query.task !== undefined) where.push(`task = $${values.push(query.task)}`)
  if (query.flow !== undefined) {
    const flow = values.push(isUuid(query.flow) ? query.flow : null)
    where.push(`flow = (SELECT f.seq FROM sluice.flows f WHERE f.id = $${flow}::uuid)`)
    where.push(`node > $${values.push(query.afterNode ?? -1)}`)
  }
  const order = query.flow === undefined ? 'seq DESC' : 'node'
  const limit = values.push(query.limit ?? 100)
  const rows = await db.all<Row>(`${SELECT} WHERE ${where.join(' AND ')} ORDER BY ${order} LIMIT $${limit}`, ...values)
  return rows.map(toRecord)
}

/**
 * The condition for jobs shown in these states. A job that a limit has rescheduled waits in its lane, and is shown as
 * scheduled until its expected start.
 */
export function shownAs(states: readonly JobState[]): string {
  if (states.includes('scheduled') === states.includes('available')) return 'state'
  return `(CASE WHEN state = ${STATE.available} AND booked > sluice.now_us() THEN ${STATE.scheduled} ELSE state END)`
}

function toRecord([nowUs, wallUs, ...row]: Row): JobRecord {
  const fields = RECORD.read(row)
  return jobRecord(fields, String(fields.queue), { nowUs, wallOffsetUs: wallUs - nowUs })
}
