import { TICKET } from '../contract/budgets.ts'
import {
  type DetailsPage,
  type DetailsQuery,
  type JobDetails,
  type OverdueRuns,
  TIMEOUT_GRACE_US,
} from '../contract/remote-jobs.ts'
import { NOW, shownIn } from './get.ts'
import { detailsColumns, ERRORS, IN_DEAD_LETTER, jobDetails } from './job-record.ts'
import type { Reading } from './reading.ts'
import { type Access, all, get, isUuid, run, type SqlValue } from './sql.ts'
import { STATE } from './state.ts'

const DETAILS = { id: detailsColumns('id'), key: detailsColumns('key') }
const BYTES = ['input', 'result', 'extra', ERRORS].map((each) => `coalesce(octet_length(${each}), 0)`).join(' + ')
const ACTIVE = `FROM sluice.jobs WHERE state = ${STATE.active}`
/** When the next attempt and the next lease end, then the overdue runs. */
const OVERDUE = `SELECT NULL::uuid AS id, (SELECT ends ${ACTIVE} AND ends IS NOT NULL ORDER BY ends LIMIT 1),
  (SELECT due ${ACTIVE} AND due IS NOT NULL ORDER BY due LIMIT 1) UNION ALL SELECT o.id, NULL, NULL FROM
  (SELECT id ${ACTIVE} AND ends IS NOT NULL AND ends <= ${NOW} - ${TIMEOUT_GRACE_US} ORDER BY ends LIMIT $1) o`
type Due = readonly [id: string | null, ends: number | null, lease: number | null]
const REMOVE = `DELETE FROM sluice.jobs WHERE id = $1::uuid
  AND state IN (${STATE.completed}, ${STATE.cancelled}, ${STATE.discarded})
  AND NOT EXISTS (SELECT 1 FROM sluice.flows f WHERE f.seq = jobs.flow AND f.state = 0)`

/** Jobs with all their stored details, in the order of the ids; null: the job does not exist. */
export function* details(access: Access, ids: readonly string[]): Reading<(JobDetails | null)[]> {
  const known = ids.filter(isUuid)
  if (known.length === 0) return ids.map(() => null)
  const jobs = yield* detailsOf(access, 'id = ANY ($1::uuid[])', known)
  const byId = new Map(jobs.map((job) => [job.id, job]))
  return ids.map((id) => byId.get(id) ?? null)
}

function* detailsOf(access: Access, where: string, values: readonly (string | number)[]): Reading<JobDetails[]> {
  const { list, read } = DETAILS[access.laneKey]
  const rows = yield* all(access.db, `SELECT ${list} FROM sluice.jobs j WHERE ${where}`, values)
  return rows.map((row) => jobDetails(read(row), access.queueName))
}

/** Jobs of one kind, by age; newest first by default. */
export function* findDetails(access: Access, query: DetailsQuery): Reading<DetailsPage> {
  const values: SqlValue[] = []
  const place = (value: SqlValue): string => `$${values.push(value)}`
  const from = `FROM sluice.jobs j WHERE ${conditionsOf(access, query, place).join(' AND ')}`
  const [total] = (yield* get<[number]>(access.db, `SELECT count(*) ${from}`, ...values)) as [number]
  const { limit, offset, after, bytes = Infinity, oldestFirst = false } = query
  const behind = after === undefined ? '' : `AND seq ${oldestFirst ? '>' : '<'} ${place(after)}`
  const order = `ORDER BY seq ${oldestFirst ? 'ASC' : 'DESC'}`
  const page = `${behind} ${order} LIMIT ${place(limit + 1)} OFFSET ${place(offset)}`
  const rows = yield* all<[number, number]>(access.db, `SELECT seq, ${BYTES} ${from} ${page}`, ...values)
  const { seqs, next } = fitting(rows, limit, bytes)
  const jobs = seqs.length === 0 ? [] : yield* detailsOf(access, `seq = ANY ($1::bigint[]) ${order}`, seqs)
  return { jobs, total, next }
}

function conditionsOf({ queues, inState }: Access, query: DetailsQuery, place: (value: SqlValue) => string): string[] {
  const { states, queue, queuePrefix, queueWithout, task, sinceMs, untilMs } = query
  // Lists of jobs leave tickets out.
  const where: string[] = [queue === undefined && task === undefined ? `task <> ${place(TICKET)}` : 'true']
  if (states) where.push(shownIn(states))
  // Only so many run as there are slots, among millions of others.
  if (states?.every((state) => state === 'active')) where.push(`seq IN (${inState(STATE.active, 'seq')})`)
  if (query.deadLetter) where.push(IN_DEAD_LETTER)
  if (queue !== undefined) where.push(queues((name) => `${name} = ${place(queue)}`))
  if (queuePrefix !== undefined) where.push(queues((name) => `starts_with(${name}, ${place(queuePrefix)})`))
  if (queueWithout !== undefined) where.push(queues((name) => `strpos(${name}, ${place(queueWithout)}) = 0`))
  if (task !== undefined) where.push(`task = ${place(task)}`)
  const atWall = (ms: number): string =>
    `(SELECT ${place(Math.round(ms * 1000))}::bigint - sluice.wall_us() + sluice.now_us())`
  if (sinceMs !== undefined) where.push(`created >= ${atWall(sinceMs)}`)
  if (untilMs !== undefined) where.push(`created < ${atWall(untilMs)}`)
  return where
}

/** Runs whose attempt's time is over, and when the next run or lease ends. */
export function* overdueRuns(access: Access, limit: number): Reading<OverdueRuns> {
  const rows = yield* all<Due>(access.db, OVERDUE, limit)
  const nexts = rows.map(([, ends, lease]) => Math.min((ends ?? Infinity) + TIMEOUT_GRACE_US, lease ?? Infinity))
  const nextUs = Math.min(...nexts)
  const runs = yield* details(
    access,
    rows.flatMap(([id]) => id ?? []),
  )
  return { runs: runs.filter((each) => each !== null), nextUs: nextUs === Infinity ? null : nextUs }
}

/** Deletes a job that has ended, unless its flow still runs and may need its result. */
export function* remove({ db }: Access, id: string): Reading<boolean> {
  return isUuid(id) && (yield* run(db, REMOVE, id)) > 0
}

/** Records the progress of a run. */
export function* noteProgress({ db }: Access, id: string, progress: string): Reading<boolean> {
  const active = `id = $1::uuid AND state = ${STATE.active}`
  return isUuid(id) && (yield* run(db, `UPDATE sluice.jobs SET progress = $2 WHERE ${active}`, id, progress)) > 0
}

/** The rows of a page that fit into an answer. */
interface Fitting {
  readonly seqs: readonly number[]
  /** The last row of the page, if others follow it; null: none do. */
  readonly next: number | null
}

/**
 * Counts the rows that fit; the first always does. @param rows one more than the page has, if there are more, each with
 * its bytes
 */
function fitting(rows: readonly (readonly [seq: number, bytes: number])[], most: number, bytes: number): Fitting {
  const seqs: number[] = []
  let used = 0
  for (const [seq, size] of rows) {
    used += size
    if (seqs.length >= most || (seqs.length > 0 && used > bytes)) return { seqs, next: seqs.at(-1) ?? null }
    seqs.push(seq)
  }
  return { seqs, next: null }
}
