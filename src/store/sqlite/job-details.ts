import type { DetailsQuery, DetailsPage, JobDetails } from '../contract/remote-jobs.ts'
import { detailsColumns, IN_DEAD_LETTER, jobDetails } from '../shared/job-record.ts'
import { fitting } from '../shared/page-of-bytes.ts'
import { STATE } from '../shared/state.ts'
import { type Context, queueName } from './context.ts'
import { shownAt, shownIn } from './get.ts'

type Row = readonly unknown[]

const DETAILS = detailsColumns({ schema: '', lane: 'id', errors: 'errors' })
const SELECT = `SELECT ${DETAILS.list} FROM jobs j`

const BYTES = `octet_length(input) + coalesce(octet_length(result), 0) + coalesce(octet_length(extra), 0) + coalesce(octet_length(errors), 0)`

/** One job with all its stored details. */
export function details(context: Context, id: string): JobDetails | null {
  const row = context.db.get<Row>(`${SELECT} WHERE id = ?`, id)
  return row ? toDetails(context, row) : null
}

function toDetails(context: Context, row: Row): JobDetails {
  const fields = DETAILS.read(row)
  return jobDetails(fields, queueName(context, Number(fields.queue)), shownAt(context))
}

/** Jobs of one kind, by age; newest first by default. */
export function findDetails(context: Context, query: DetailsQuery): DetailsPage {
  const { where, values } = conditionOf(context, query)
  const [total] = context.db.get<[number]>(`SELECT count(*) FROM jobs j WHERE ${where}`, ...values) as [number]
  const order = query.oldestFirst ? 'ASC' : 'DESC'
  const { limit, offset, after, bytes = Infinity } = query
  const behind = after === undefined ? '' : ` AND seq ${query.oldestFirst ? '>' : '<'} ?`
  const rows = context.db.all<[number, number]>(
    `SELECT seq, ${BYTES} FROM jobs j WHERE ${where}${behind} ORDER BY seq ${order} LIMIT ? OFFSET ?`,
    ...values,
    ...(after === undefined ? [] : [after]),
    limit + 1,
    offset,
  )
  const { seqs, next } = fitting(rows, limit, bytes)
  const jobs = context.db.all<Row>(
    `${SELECT} WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq ${order}`,
    JSON.stringify(seqs),
  )
  return { jobs: jobs.map((row) => toDetails(context, row)), total, next }
}

function conditionOf(context: Context, query: DetailsQuery): { where: string; values: (string | number)[] } {
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

/** Deletes a job that has ended, unless its flow still runs and may need its result. */
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

/** Records the progress of a run. */
export function noteProgress(context: Context, id: string, progress: string): boolean {
  return context.db.run(`UPDATE jobs SET progress = ? WHERE id = ? AND state = ${STATE.active}`, progress, id) > 0
}
