import type { PgValue, Statements } from '../../database/postgres.ts'
import type { DetailsQuery, DetailsPage, JobDetails } from '../contract/remote-jobs.ts'
import { detailsColumns, IN_DEAD_LETTER, jobDetails } from '../shared/job-record.ts'
import { fitting } from '../shared/page-of-bytes.ts'
import { isUuid } from '../shared/sql.ts'
import { STATE } from '../shared/state.ts'
import { CLOCKS, JOBS, type Row, shownAs } from './get.ts'

const DETAILS = detailsColumns(JOBS)
const SELECT = `SELECT ${CLOCKS}, ${DETAILS.list} FROM sluice.jobs j`

const BYTES = `octet_length(input) + coalesce(octet_length(result), 0) + coalesce(octet_length(extra), 0)
  + coalesce(octet_length(array_to_string(errors, ',')), 0)`

/** Jobs with all their stored details, in the order of the ids; null: the job does not exist. */
export async function details(db: Statements, ids: readonly string[]): Promise<(JobDetails | null)[]> {
  const known = ids.filter(isUuid)
  if (known.length === 0) return ids.map(() => null)
  const rows = await db.all<Row>(`${SELECT} WHERE id = ANY ($1::uuid[])`, known)
  const byId = new Map(rows.map(toDetails).map((job) => [job.id, job]))
  return ids.map((id) => byId.get(id) ?? null)
}

/** Jobs of one kind, by age; newest first by default. */
export async function findDetails(db: Statements, query: DetailsQuery): Promise<DetailsPage> {
  const { where, values } = conditionOf(query)
  const [total] = (await db.get<[number]>(`SELECT count(*) FROM sluice.jobs j WHERE ${where}`, ...values)) as [number]
  const order = query.oldestFirst ? 'ASC' : 'DESC'
  const { limit, offset, after, bytes = Infinity } = query
  const given = [...values, limit + 1, offset, ...(after === undefined ? [] : [after])]
  const behind = after === undefined ? '' : ` AND seq ${query.oldestFirst ? '>' : '<'} $${given.length}`
  const page = `ORDER BY seq ${order} LIMIT $${values.length + 1} OFFSET $${values.length + 2}`
  const rows = await db.all<[number, number]>(
    `SELECT seq, ${BYTES} FROM sluice.jobs j WHERE ${where}${behind} ${page}`,
    ...given,
  )
  const { seqs, next } = fitting(rows, limit, bytes)
  if (seqs.length === 0) return { jobs: [], total, next }
  const jobs = await db.all<Row>(`${SELECT} WHERE seq = ANY ($1::bigint[]) ORDER BY seq ${order}`, seqs)
  return { jobs: jobs.map(toDetails), total, next }
}

function conditionOf(query: DetailsQuery): { where: string; values: PgValue[] } {
  const where: string[] = ['true']
  const values: PgValue[] = []
  const add = (value: PgValue, condition: (place: string) => string): void => {
    where.push(condition(`$${values.push(value)}`))
  }
  const { states } = query
  if (states)
    add(
      states.map((state) => STATE[state]),
      (place) => `${shownAs(states)} = ANY (${place}::int[])`,
    )
  if (query.deadLetter) where.push(IN_DEAD_LETTER)
  if (query.queue !== undefined) add(query.queue, (place) => `queue = ${place}`)
  if (query.queuePrefix !== undefined) add(query.queuePrefix, (place) => `starts_with(queue, ${place})`)
  if (query.queueWithout !== undefined) add(query.queueWithout, (place) => `strpos(queue, ${place}) = 0`)
  if (query.task !== undefined) add(query.task, (place) => `task = ${place}`)
  const created = (place: string): string => `${place}::bigint - sluice.wall_us() + sluice.now_us()`
  if (query.sinceMs !== undefined) add(Math.round(query.sinceMs * 1000), (place) => `created >= ${created(place)}`)
  if (query.untilMs !== undefined) add(Math.round(query.untilMs * 1000), (place) => `created < ${created(place)}`)
  return { where: where.join(' AND '), values }
}

function toDetails([nowUs, wallUs, ...row]: Row): JobDetails {
  const fields = DETAILS.read(row)
  return jobDetails(fields, String(fields.queue), { nowUs, wallOffsetUs: wallUs - nowUs })
}

/** Deletes a job that has ended. */
export async function remove(db: Statements, id: string): Promise<boolean> {
  const final = `${STATE.completed}, ${STATE.cancelled}, ${STATE.discarded}`
  const idle = 'NOT EXISTS (SELECT 1 FROM sluice.flows f WHERE f.seq = j.flow AND f.state = 0)'
  return (
    isUuid(id) &&
    (await db.run(`DELETE FROM sluice.jobs j WHERE id = $1::uuid AND state IN (${final}) AND ${idle}`, id)) > 0
  )
}

/** Records the progress of a run. */
export async function noteProgress(db: Statements, id: string, progress: string): Promise<boolean> {
  const active = `id = $1::uuid AND state = ${STATE.active}`
  return isUuid(id) && (await db.run(`UPDATE sluice.jobs SET progress = $2 WHERE ${active}`, id, progress)) > 0
}
