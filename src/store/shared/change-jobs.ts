import type { JobMatch } from '../../jobs/job-filter.ts'
import type { JobSpan } from '../../jobs/job.ts'
import type { ChangedJobs, JobChange } from '../contract/change-jobs.ts'
import { column, columns, numbers, numbersOrNull, type RowOf, texts } from './columns.ts'
import { changeable, conditions } from './find-jobs.ts'
import type { Place } from './job-match.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, now, run } from './sql.ts'
import { STATE, stateName } from './state.ts'

const CANDIDATE = columns({
  ...texts('id', 'task'),
  ...numbers('seq', 'state'),
  ...numbersOrNull('flow'),
  queue: column<string | number>(),
})
type Candidate = RowOf<typeof CANDIDATE>

const MARK = `UPDATE sluice.jobs SET cancelling = true WHERE seq = ANY ($1::bigint[])`
const END = `UPDATE sluice.jobs SET state = ${STATE.cancelled}, finished = $2, due = $3 WHERE seq = ANY ($1::bigint[])`
const FRESH = `UPDATE sluice.jobs SET attempt = 0, pushed_back = 0, cancelling = false, expires = NULL, finished = NULL,
  error = NULL WHERE seq = ANY ($1::bigint[])`
const DELETE = 'DELETE FROM sluice.jobs WHERE seq = ANY ($1::bigint[])'

/** Changes jobs that match, newest first, at most `limit`. */
export function* changeJobs(
  access: Access,
  change: JobChange,
  match: JobMatch,
  span: JobSpan,
  limit: number,
): Reading<ChangedJobs> {
  const { values, compiled, where } = conditions(access, { ...match, ...span })
  const place: Place = (value) => `$${values.push(value)}`
  const holds = [...where, changeable(access, change, place)].join(' AND ')
  const from = `FROM sluice.jobs j WHERE ${holds}`
  const select = `SELECT ${CANDIDATE.list}${compiled.searched} ${from} ORDER BY seq DESC LIMIT ${limit}`
  const rows = yield* all(access.db, select, ...values)
  const next = rows.length < limit ? null : CANDIDATE.read(rows.at(-1) as readonly unknown[]).seq
  const found = (compiled.decide ? rows.filter(compiled.decide) : rows).map((row) => CANDIDATE.read(row))
  const singly = (job: Candidate): boolean => job.flow !== null && change.kind !== 'delete'
  const plain = found.filter((job) => !singly(job)).map(({ seq }) => seq)
  if (plain.length === 0) return { changed: [], left: found.map((job) => ({ id: job.id, inFlow: true })), next }
  // Two transactions that wait for each other's jobs would end one of both: only a call for one job waits.
  const lock = `FOR UPDATE OF j${limit === 1 ? '' : ' SKIP LOCKED'}`
  const these = `SELECT ${CANDIDATE.list} ${from} AND seq = ANY (${place(plain)}::bigint[]) ORDER BY seq ${lock}`
  const locked = (yield* all(access.db, these, ...values)).map((row) => CANDIDATE.read(row))
  if (locked.length > 0) yield* apply(access, change, locked)
  const changed = new Set(locked.map(({ seq }) => seq))
  return {
    changed: locked.map(({ id, task, queue, state }) => ({
      id,
      task,
      queue: access.queueName(queue),
      was: stateName(state),
    })),
    left: found.filter(({ seq }) => !changed.has(seq)).map((job) => ({ id: job.id, inFlow: singly(job) })),
    next,
  }
}

function* apply(access: Access, change: JobChange, jobs: readonly Candidate[]): Reading<void> {
  const { db } = access
  const seqs = jobs.map(({ seq }) => seq)
  const instant = yield* now(access)
  if (change.kind === 'delete') yield* run(db, DELETE, seqs)
  else if (change.kind === 'retry') {
    yield* run(db, FRESH, seqs)
    yield* ask(() => access.wakeJobs(seqs))
  } else if (change.kind === 'place') {
    if (change.queue !== null) yield* ask(() => access.lockQueue(change.queue as string))
    yield* ask(() => access.rehome(seqs, change, instant.nowUs))
  } else {
    const active = jobs.filter(({ state }) => state === STATE.active).map(({ seq }) => seq)
    const waiting = jobs.filter(({ state }) => state !== STATE.active)
    if (active.length > 0) yield* run(db, MARK, active)
    if (waiting.length === 0) return
    const ends = waiting.map(({ seq }) => seq)
    yield* run(db, END, ends, instant.nowUs, instant.nowUs + access.retention.cancelledUs)
    const inLanes = waiting.filter(({ state }) => state === STATE.available).map(({ seq }) => seq)
    if (inLanes.length > 0) yield* ask(() => access.leaveLanes(inLanes, instant.nowUs))
  }
}
