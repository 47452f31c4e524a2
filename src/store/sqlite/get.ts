import { NEVER_US } from '../../policy/admission/lane.ts'
import type { JobQuery, JobRecord } from '../../jobs/job.ts'
import { occurrenceOf } from '../shared/series.ts'
import { placeIn } from '../shared/stored-flows.ts'
import { type Context, queueName } from './context.ts'
import { errorOf } from '../shared/set-aside.ts'
import { STATE, stateName } from '../shared/state.ts'
import { shownIn } from './shown-in.ts'

/** What a stored job is read from: the columns of `RECORD`. */
export type RecordRow = readonly [
  seq: number,
  id: string,
  task: string,
  queue: number,
  state: number,
  priority: number,
  input: string,
  result: string | null,
  error: string | null,
  attempt: number,
  maxAttempts: number,
  created: number,
  due: number | null,
  started: number | null,
  finished: number | null,
  extra: string | null,
  schedule: string | null,
  occurs: number | null,
  booked: number | null,
  flow: string | null,
  node: number | null,
  total: number | null,
  wakeAt: number | null,
]

/** The columns that a stored job is made of, from `jobs`. */
export const RECORD = `seq, id, task, queue, state, coalesce(asked, priority), input, result, error, attempt, max_attempts, created, due, started, finished, extra, schedule, occurs, booked,
  (SELECT id FROM flows WHERE seq = jobs.flow), node, (SELECT total FROM flows WHERE seq = jobs.flow),
  CASE WHEN state = 1 THEN coalesce(
    (SELECT b.wake_at FROM lanes l JOIN buckets b ON b.id = l.bucket WHERE l.id = jobs.lane AND l.state = 2),
    (SELECT min(b.wake_at) FROM lanes l JOIN buckets b ON b.id = l.bucket WHERE l.base = jobs.lane AND l.state = 2)) END`
const SELECT = `SELECT ${RECORD} FROM jobs`

/** One job by its id. */
export function get(context: Context, id: string): JobRecord | null {
  const row = context.db.get<RecordRow>(`${SELECT} WHERE id = ?`, id)
  return row ? toRecord(context, row) : null
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
  const rows = context.db.all<RecordRow>(
    `${SELECT} WHERE ${where.join(' AND ')} ORDER BY ${order} LIMIT ?`,
    ...values,
    query.limit ?? 100,
  )
  return rows.map((row) => toRecord(context, row))
}

/** A stored job, of a row that begins with the columns of `RECORD`. */
export function toRecord(context: Context, row: RecordRow): JobRecord {
  const [
    seq,
    id,
    task,
    queue,
    state,
    priority,
    input,
    result,
    error,
    attempt,
    maxAttempts,
    createdUs,
    due,
    startedUs,
    finishedUs,
    extra,
    schedule,
    occurs,
    booked,
    flow,
    node,
    total,
    wakeAt,
  ] = row
  const nowUs = context.clock.nowUs()
  const putOffUs = state === STATE.available && booked !== null && booked > nowUs ? booked : null
  const name = putOffUs === null ? stateName(state) : 'scheduled'
  const hasDue = name === 'scheduled' || name === 'retryable' || name === 'active'
  return {
    seq,
    id,
    task,
    queue: queueName(context, queue),
    state: name,
    priority,
    input,
    result,
    error: error === null ? null : errorOf(error),
    attempt,
    maxAttempts,
    createdUs,
    dueUs: putOffUs !== null ? putOffUs + context.clock.wallOffsetUs() : hasDue ? due : null,
    startedUs,
    finishedUs,
    extra,
    throttledUntilUs: throttledUntilUs(wakeAt, nowUs),
    ...occurrenceOf(schedule, occurs),
    ...placeIn(flow, node, total),
  }
}

/** When the line that a waiting job's lane stands in may go on; null: it stands in none, or a permit has to return. */
function throttledUntilUs(wakeAtUs: number | null, nowUs: number): number | null {
  return wakeAtUs === null || wakeAtUs === NEVER_US ? null : Math.max(wakeAtUs, nowUs)
}
