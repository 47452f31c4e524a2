import type { JobQuery, JobRecord } from '../../jobs/job.ts'
import { jobRecord, recordColumns, type ShownAt } from '../shared/job-record.ts'
import { type Context, queueName } from './context.ts'
import type { JobState } from '../../jobs/job-state.ts'
import { STATE } from '../shared/state.ts'

type Row = readonly unknown[]

const RECORD = recordColumns({ schema: '', lane: 'id', errors: 'errors' })
const SELECT = `SELECT ${RECORD.list} FROM jobs j`

/** The clocks for showing a job of this store. */
export function shownAt({ clock }: Context): ShownAt {
  return { nowUs: clock.nowUs(), wallOffsetUs: clock.wallOffsetUs() }
}

/** One job by its id. */
export function get(context: Context, id: string): JobRecord | null {
  const row = RECORD.read(context.db.get<Row>(`${SELECT} WHERE id = ?`, id))
  return row ? jobRecord(row, queueName(context, Number(row.queue)), shownAt(context)) : null
}

/** Jobs by state, queue, task and age, newest first; those of one flow in its order. */
export function list(context: Context, query: JobQuery): JobRecord[] {
  const where: string[] = ['seq < ?']
  const values: (string | number)[] = [query.before ?? Number.MAX_SAFE_INTEGER]
  if (query.states) {
    const shown = shownIn(query.states, context.clock.nowUs())
    where.push(shown.where)
    values.push(...shown.values)
  }
  if (query.queue !== undefined) {
    where.push('queue = (SELECT id FROM queues WHERE name = ?)')
    values.push(query.queue)
  }
  if (query.task !== undefined) {
    where.push('task = ?')
    values.push(query.task)
  }
  if (query.flow !== undefined) {
    where.push('flow = (SELECT seq FROM flows WHERE id = ?)')
    values.push(query.flow)
    where.push('node > ?')
    values.push(query.afterNode ?? -1)
  }
  const order = query.flow === undefined ? 'seq DESC' : 'node'
  const rows = context.db.all<Row>(
    `${SELECT} WHERE ${where.join(' AND ')} ORDER BY ${order} LIMIT ?`,
    ...values,
    query.limit ?? 100,
  )
  const at = shownAt(context)
  return rows.map(RECORD.read).map((row) => jobRecord(row, queueName(context, Number(row.queue)), at))
}

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
