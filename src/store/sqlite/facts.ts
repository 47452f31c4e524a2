import type { FactsQuery, Failure, JobFacts } from '../outside.ts'
import type { Context } from './context.ts'
import { get } from './get.ts'
import { shownIn, STATE } from './state.ts'

type Row = [
  since: number,
  expires: number | null,
  worker: number | null,
  workerName: string | null,
  engineRuns: number,
  pushedBack: number,
  lease: number | null,
  leased: number | null,
  timeout: number | null,
  errors: string | null,
  progress: string | null,
  deadLetter: number,
]

const IN_DEAD_LETTER = `state = ${STATE.discarded} AND dead_letter = 1 AND attempt > 0`
const SELECT = `SELECT since, expires, worker, (SELECT name FROM workers w WHERE w.id = jobs.worker),
  EXISTS (SELECT 1 FROM workers w WHERE w.id = jobs.worker AND name IS NULL), pushed_back, lease, leased, timeout, errors, progress,
  ${IN_DEAD_LETTER} FROM jobs WHERE id = ?`

/** One job with all that is kept of it. */
export function facts(context: Context, id: string): JobFacts | null {
  const job = get(context, id)
  const row = job && context.db.get<Row>(SELECT, id)
  if (!row) return null
  const [
    sinceUs,
    expires,
    worker,
    workerName,
    engineRuns,
    pushedBack,
    leaseUs,
    leasedUs,
    timeoutUs,
    errors,
    progress,
    dead,
  ] = row
  return {
    ...job,
    sinceUs,
    expiresMs: expires === null ? null : expires / 1000,
    worker,
    workerName,
    engineRuns: engineRuns === 1,
    pushedBack,
    leaseUs,
    leasedUs,
    timeoutUs,
    errors: errors === null ? [] : (JSON.parse(errors) as Failure[]),
    progress,
    deadLetter: dead === 1,
  }
}

/** Jobs of one kind, by age; newest first unless it is asked otherwise. */
export function find(context: Context, query: FactsQuery): { jobs: JobFacts[]; total: number } {
  const { where, values } = conditionOf(context, query)
  const [total] = context.db.get<[number]>(`SELECT count(*) FROM jobs WHERE ${where}`, ...values) as [number]
  const order = query.oldestFirst ? 'ASC' : 'DESC'
  const ids = context.db.all<[string]>(
    `SELECT id FROM jobs WHERE ${where} ORDER BY seq ${order} LIMIT ? OFFSET ?`,
    ...values,
    query.limit,
    query.offset,
  )
  return { jobs: ids.flatMap(([id]) => facts(context, id) ?? []), total }
}

function conditionOf(context: Context, query: FactsQuery): { where: string; values: (string | number)[] } {
  const where: string[] = ['1']
  const values: (string | number)[] = []
  const add = (condition: string, value: string | number): void => {
    where.push(condition)
    values.push(value)
  }
  const { nowUs, wallUs } = context.clock.read()
  if (query.states) {
    const shown = shownIn(query.states, nowUs)
    where.push(shown.where)
    values.push(...shown.values)
  }
  if (query.deadLetter) where.push(IN_DEAD_LETTER)
  if (query.queue !== undefined) add('queue = (SELECT id FROM queues WHERE name = ?)', query.queue)
  if (query.queuePrefix !== undefined)
    add('queue IN (SELECT id FROM queues WHERE instr(name, ?) = 1)', query.queuePrefix)
  if (query.queueWithout !== undefined)
    add('queue IN (SELECT id FROM queues WHERE instr(name, ?) = 0)', query.queueWithout)
  if (query.task !== undefined) add('task = ?', query.task)
  if (query.sinceMs !== undefined) add('created >= ?', Math.round(query.sinceMs * 1000) - wallUs + nowUs)
  if (query.untilMs !== undefined) add('created < ?', Math.round(query.untilMs * 1000) - wallUs + nowUs)
  return { where: where.join(' AND '), values }
}

/** Deletes a job that has ended; not one of a flow that goes on, which may have to hand its result to others. */
export function remove(context: Context, id: string): boolean {
  const final = `${STATE.completed}, ${STATE.cancelled}, ${STATE.discarded}`
  return (
    context.db.run(
      `DELETE FROM jobs WHERE id = ? AND state IN (${final})
    AND NOT EXISTS (SELECT 1 FROM flows f WHERE f.seq = jobs.flow AND f.state = 0)`,
      id,
    ) > 0
  )
}

/** Notes how far a run has come. */
export function note(context: Context, id: string, progress: string): boolean {
  return context.db.run(`UPDATE jobs SET progress = ? WHERE id = ? AND state = ${STATE.active}`, progress, id) > 0
}
