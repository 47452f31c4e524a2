import { type JobLogLine, linesIn, withLines } from '../../jobs/job-log.ts'
import type { JobNote } from '../contract/job-notes.ts'
import type { Reading } from './reading.ts'
import { type Access, all, get, isUuid, run } from './sql.ts'

/** Every writer of several jobs locks them in this order. A locked job is not deleted before its log is written. */
const LOCK = 'SELECT id FROM sluice.jobs WHERE id = ANY ($1::uuid[]) ORDER BY seq FOR UPDATE'
/** A later run of the job tells its own progress. */
const PROGRESS = `UPDATE sluice.jobs SET progress = e.value ->> 2 FROM json_array_elements($1::json) e
  WHERE jobs.id = (e.value ->> 0)::uuid AND jobs.attempt = (e.value ->> 1)::int`
const BEGIN = `INSERT INTO sluice.job_logs (job, lines) SELECT id, '[]' FROM sluice.jobs WHERE id = ANY ($1::uuid[])
  ORDER BY id ON CONFLICT DO NOTHING`
const LOGS = 'SELECT job, lines FROM sluice.job_logs WHERE job = ANY ($1::uuid[]) ORDER BY job FOR UPDATE'
const KEEP = `UPDATE sluice.job_logs SET lines = e.value ->> 1 FROM json_array_elements($1::json) e
  WHERE job_logs.job = (e.value ->> 0)::uuid`

/** Adds lines and progress to jobs. */
export function* addNotes({ db }: Access, notes: readonly JobNote[]): Reading<void> {
  const told = notes.filter(({ id }) => isUuid(id))
  yield* all(db, LOCK, [...new Set(told.map(({ id }) => id))])
  const fractions = told.filter(({ progress }) => progress !== null)
  if (fractions.length > 0)
    yield* run(db, PROGRESS, JSON.stringify(fractions.map(({ id, attempt, progress }) => [id, attempt, progress])))
  const logged = told.filter(({ lines }) => lines.length > 0)
  if (logged.length === 0) return
  const ids = [...new Set(logged.map(({ id }) => id))]
  yield* run(db, BEGIN, ids)
  const logs = yield* all<[string, string]>(db, LOGS, ids)
  const kept = logs.map(([id, text]) => {
    const added = logged.flatMap((note) => (note.id === id ? note.lines : []))
    return [id, JSON.stringify(withLines(linesIn(text), added))]
  })
  if (kept.length > 0) yield* run(db, KEEP, JSON.stringify(kept))
}

/** The lines that a job keeps. */
export function* jobLog({ db }: Access, id: string): Reading<readonly JobLogLine[]> {
  if (!isUuid(id)) return []
  const row = yield* get<[string]>(db, 'SELECT lines FROM sluice.job_logs WHERE job = $1::uuid', id)
  return row ? linesIn(row[0]) : []
}
