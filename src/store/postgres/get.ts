import { isUuid } from '../shared/sql.ts'
import type { Statements } from '../../database/postgres.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { JobQuery, JobRecord } from '../../jobs/job.ts'
import { occurrenceOf } from '../shared/series.ts'
import { placeIn } from '../shared/stored-flows.ts'
import { errorOf } from '../shared/set-aside.ts'
import { STATE, stateName } from '../shared/state.ts'

/** A job as `COLUMNS` has it. */
export type Row = [
  seq: number,
  id: string,
  task: string,
  queue: string,
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
  wakeAt: number | null,
  now: number,
  wall: number,
  flow: string | null,
  node: number | null,
  total: number | null,
]

/** What `toRecord` needs, and whence. */
export const COLUMNS = `seq, id, task, queue, state, coalesce(asked, priority), input, result, error, attempt, max_attempts, created, due, started, finished, extra, schedule, occurs, booked,
  CASE WHEN state = 1 THEN coalesce((SELECT b.wake_at FROM sluice.lanes l JOIN sluice.buckets b ON b.id = l.bucket WHERE l.key = j.lane AND l.state = 2),
    (SELECT min(b.wake_at) FROM sluice.lanes l JOIN sluice.buckets b ON b.id = l.bucket WHERE l.base = j.lane AND l.state = 2)) END, sluice.now_us(), sluice.wall_us(),
  (SELECT f.id FROM sluice.flows f WHERE f.seq = j.flow), node, (SELECT f.total FROM sluice.flows f WHERE f.seq = j.flow)
  FROM sluice.jobs j`
const SELECT = `SELECT ${COLUMNS}`

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

/** A job that a limit has put off waits in its lane, and is shown as scheduled until its expected start. */
export function shownAs(states: readonly JobState[]): string {
  if (states.includes('scheduled') === states.includes('available')) return 'state'
  return `(CASE WHEN state = ${STATE.available} AND booked > sluice.now_us() THEN ${STATE.scheduled} ELSE state END)`
}

/** A job as it is told. */
export function toRecord(row: Row): JobRecord {
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
    wakeAtUs,
    nowUs,
    wallUs,
    flow,
    node,
    total,
  ] = row
  const putOffUs = state === STATE.available && booked !== null && booked > nowUs ? booked : null
  const name = putOffUs === null ? stateName(state) : 'scheduled'
  const hasDue = name === 'scheduled' || name === 'retryable' || name === 'active'
  return {
    seq,
    id,
    task,
    queue,
    state: name,
    priority,
    input,
    result,
    error: error === null ? null : errorOf(error),
    attempt,
    maxAttempts,
    createdUs,
    dueUs: putOffUs !== null ? putOffUs + wallUs - nowUs : hasDue ? due : null,
    startedUs,
    finishedUs,
    extra,
    throttledUntilUs: wakeAtUs === null || wakeAtUs === NEVER_US ? null : Math.max(wakeAtUs, nowUs),
    ...occurrenceOf(schedule, occurs),
    ...placeIn(flow, node, total),
  }
}
