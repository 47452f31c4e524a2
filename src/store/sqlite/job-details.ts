import type { DetailsQuery, DetailsPage, JobDetails } from '../contract/remote-jobs.ts'
import { fitting } from '../shared/page-of-bytes.ts'
import type { Context } from './context.ts'
import { RECORD, type RecordRow, toRecord } from './get.ts'
import { failuresOf } from '../shared/set-aside.ts'
import { STATE } from '../shared/state.ts'
import { shownIn } from './shown-in.ts'

type Row = readonly [...record: RecordRow, ...facts: Facts]
type Facts = readonly [
  since: number,
  expires: number | null,
  worker: number | null,
  workerName: string | null,
  pushedBack: number,
  lease: number | null,
  leased: number | null,
  timeout: number | null,
  errors: string | null,
  progress: string | null,
  deadLetter: number,
]

const IN_DEAD_LETTER = `state = ${STATE.discarded} AND dead_letter = 1 AND attempt > 0`
/** An engine's own worker has no name: it is read as an empty one, which no remote worker may have. */
const SELECT = `SELECT ${RECORD}, since, expires, worker, (SELECT coalesce(name, '') FROM workers w WHERE w.id = jobs.worker), pushed_back, lease, leased,
  timeout, errors, progress, ${IN_DEAD_LETTER} FROM jobs`

const BYTES = `octet_length(input) + coalesce(octet_length(result), 0) + coalesce(octet_length(extra), 0) + coalesce(octet_length(errors), 0)`

/** One job with all that is kept of it. */
export function details(context: Context, id: string): JobDetails | null {
  const row = context.db.get<Row>(`${SELECT} WHERE id = ?`, id)
  return row ? toFacts(context, row) : null
}

function toFacts(context: Context, row: Row): JobDetails {
  const [since, expires, worker, workerName, pushedBack, lease, leased, timeout, errors, progress, dead] = row.slice(
    -11,
  ) as unknown as Facts
  return {
    ...toRecord(context, row as unknown as RecordRow),
    sinceUs: since,
    expiresMs: expires === null ? null : expires / 1000,
    worker,
    workerName: workerName === '' ? null : workerName,
    engineRuns: workerName === '',
    pushedBack,
    leaseUs: lease,
    leasedUs: leased,
    timeoutUs: timeout,
    errors: errors === null ? [] : failuresOf(errors),
    progress,
    deadLetter: dead === 1,
  }
}

/** Jobs of one kind, by age; newest first unless it is asked otherwise. */
export function findDetails(context: Context, query: DetailsQuery): DetailsPage {
  const { where, values } = conditionOf(context, query)
  const [total] = context.db.get<[number]>(`SELECT count(*) FROM jobs WHERE ${where}`, ...values) as [number]
  const order = query.oldestFirst ? 'ASC' : 'DESC'
  const { limit, offset, after, bytes = Infinity } = query
  const behind = after === undefined ? '' : ` AND seq ${query.oldestFirst ? '>' : '<'} ?`
  const rows = context.db.all<[number, number]>(
    `SELECT seq, ${BYTES} FROM jobs WHERE ${where}${behind} ORDER BY seq ${order} LIMIT ? OFFSET ?`,
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
  return { jobs: jobs.map((row) => toFacts(context, row)), total, next }
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
export function noteProgress(context: Context, id: string, progress: string): boolean {
  return context.db.run(`UPDATE jobs SET progress = ? WHERE id = ? AND state = ${STATE.active}`, progress, id) > 0
}
