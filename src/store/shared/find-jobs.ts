import { TICKET } from '../contract/budgets.ts'
import type { JobMatch } from '../../jobs/job-filter.ts'
import type { JobQuery, JobRecord, JobSpan } from '../../jobs/job.ts'
import type { IndexedState, TaskCount } from '../contract/find-jobs.ts'
import type { JobChange } from '../contract/change-jobs.ts'
import { compileMatch, type CompiledMatch, type Place } from './job-match.ts'
import { NOW } from './get.ts'
import { jobRecord, recordColumns } from './job-record.ts'
import type { Reading } from './reading.ts'
import { type Access, all, get, type SqlValue } from './sql.ts'
import { LIVE_STATES, STATE, stateName } from './state.ts'

const RECORD = { id: recordColumns('id'), key: recordColumns('key') }
const MOST = Number.MAX_SAFE_INTEGER
const ENDED = `${STATE.completed}, ${STATE.cancelled}, ${STATE.discarded}`
const WAITING = `${STATE.scheduled}, ${STATE.available}, ${STATE.retryable}, ${STATE.pending}`

/** Jobs that match, newest first; those of one flow in its order. */
export function* list(access: Access, query: JobQuery): Reading<JobRecord[]> {
  const { limit = 100, flow, ...match } = query
  const record = RECORD[access.laneKey]
  const found: JobRecord[] = []
  let { before, afterNode } = query
  for (;;) {
    const { values, compiled, where } = conditions(access, { ...match, ...(flow !== undefined && { flow }), before })
    const place = (value: SqlValue): string => `$${values.push(value)}`
    if (flow !== undefined) where.push(`node > ${place(afterNode ?? -1)}`)
    const order = `ORDER BY ${flow === undefined ? 'seq DESC' : 'node'} LIMIT ${place(limit)}`
    const from = `FROM sluice.jobs j WHERE ${where.join(' AND ')} ${order}`
    const rows = yield* all(access.db, `SELECT ${record.list}${compiled.searched} ${from}`, ...values)
    for (const row of rows) {
      const fields = record.read(row)
      before = fields.seq
      afterNode = fields.node ?? afterNode
      if (found.length === limit) return found
      if (compiled.decide && !compiled.decide(row)) continue
      found.push(jobRecord(fields, access.queueName))
    }
    if (rows.length < limit || found.length === limit) return found
  }
}

/** The number of jobs that match. @param change only jobs that it applies to */
export function* countJobs(access: Access, match: JobMatch, span: JobSpan = {}, change?: JobChange): Reading<number> {
  const { values, compiled, where } = conditions(access, { ...match, ...span })
  if (change) where.push(changeable(access, change, (value) => `$${values.push(value)}`))
  const from = `FROM sluice.jobs j WHERE ${where.join(' AND ')}`
  const { decide, searched } = compiled
  if (!decide) return ((yield* get<[number]>(access.db, `SELECT count(*) ${from}`, ...values)) as [number])[0]
  const rows = yield* all(access.db, `SELECT seq${searched} ${from}`, ...values)
  return rows.filter(decide).length
}

/** Jobs by task and state, as they are shown. */
export function* taskCounts(access: Access, span: JobSpan): Reading<TaskCount[]> {
  const { values, where } = conditions(access, span)
  const shown = `CASE WHEN state = ${STATE.available} AND booked > ${NOW} THEN ${STATE.scheduled} ELSE state END`
  const from = `FROM sluice.jobs j WHERE ${where.join(' AND ')} GROUP BY 1, 2`
  const rows = yield* all<[string, number, number]>(access.db, `SELECT task, ${shown}, count(*) ${from}`, ...values)
  return rows.map(([task, state, jobs]) => ({ task, state: stateName(state), jobs }))
}

/** The `seq` of the oldest of so many jobs, counted from the newest one before `before`; null: there is none. */
export function* oldestOf(access: Access, rows: number, before: number = MOST): Reading<number | null> {
  const newest = 'SELECT seq FROM sluice.jobs WHERE seq < $1 ORDER BY seq DESC LIMIT $2'
  return (
    (yield* get<[number | null]>(access.db, `SELECT min(n.seq) FROM (${newest}) n`, before, rows)) as [number | null]
  )[0]
}

/** The `seq` of jobs in these states, by their indexes, at most `rows` of them in any order. */
export function* jobsInStates(access: Access, states: readonly IndexedState[], rows: number): Reading<number[]> {
  const found: number[] = []
  for (const state of states) {
    const left = rows - found.length
    if (left <= 0) break
    const some = yield* all<[number]>(access.db, `${access.inState(STATE[state], 'seq')} LIMIT $1`, left)
    for (const [seq] of some) found.push(seq)
  }
  return found
}

/** The conditions of a filter and a span on `jobs j`, with the values of the statement so far. */
export function conditions(
  access: Access,
  { before, from, seqs, ...match }: JobMatch & { readonly [Name in keyof JobSpan]: JobSpan[Name] | undefined },
): { readonly values: SqlValue[]; readonly compiled: CompiledMatch; readonly where: string[] } {
  const values: SqlValue[] = []
  const place = (value: SqlValue): string => `$${values.push(value)}`
  const where = [`seq < ${place(before ?? MOST)}`]
  if (from !== undefined) where.push(`seq >= ${place(from)}`)
  if (seqs !== undefined) where.push(`seq = ANY (${place(seqs)}::bigint[])`)
  const compiled = compileMatch(access, match, place, from !== undefined || seqs !== undefined)
  // Lists of jobs leave tickets out.
  if (match.task === undefined && match.queue === undefined && match.flow === undefined)
    where.push(`task <> ${place(TICKET)}`)
  return { values, compiled, where: [...where, ...compiled.where] }
}

/** Jobs that a change applies to: repeated, it finds only those that are left. */
export function changeable(access: Access, change: JobChange, place: Place): string {
  if (change.kind === 'cancel') return `state IN (${LIVE_STATES}) AND NOT cancelling`
  if (change.kind === 'retry') return `state = ${STATE.discarded}`
  if (change.kind === 'delete')
    return `state IN (${ENDED}) AND NOT EXISTS (SELECT 1 FROM sluice.flows f WHERE f.seq = j.flow AND f.state = 0)`
  const differs = [
    ...(change.queue === null ? [] : [`NOT (${access.queues((name) => `${name} = ${place(change.queue)}`)})`]),
    ...(change.priority === null ? [] : [`coalesce(asked, priority) <> ${place(change.priority)}`]),
  ]
  return `state IN (${WAITING}) AND flow IS NULL AND (${differs.join(' OR ')})`
}
