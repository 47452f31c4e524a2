/** Recurring work as both stores keep it: its row, and the rules of registering and skipping. */
import { firstDueUs } from '../../jobs/recurrence.ts'
import type { NewSchedule, ScheduleRecord } from '../../jobs/schedule.ts'
import type { Scheduled } from '../contract/schedules.ts'
import { column, columns } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import {
  begin,
  clockOf,
  firstFrom,
  type Instant,
  pause,
  resume,
  type StoredSchedule,
  toRecord,
  upcoming,
} from '../../jobs/series.ts'
import { isSchedule } from './set-aside.ts'
import { type Access, all, get, now, run, type SqlValue } from './sql.ts'

const SCHEDULE = columns({
  spec: column<string>(),
  anchorUs: column<number>('anchor'),
  anchorWallUs: column<number>('anchor_wall'),
  nextUs: column<number | null>('next_at'),
  catchUpToUs: column<number | null>('catch_up_to'),
  runs: column<number>(),
  lastDueUs: column<number | null>('last_due'),
  lastJob: column<string | null>('last_job'),
  pausedUs: column<number | null>('paused'),
})

const SELECT = `SELECT ${SCHEDULE.list} FROM sluice.schedules`
const UPSERT = `INSERT INTO sluice.schedules (name, spec, wall, anchor, anchor_wall, next_at, paused)
  VALUES ($1, $2, $3, $4, $5, $6, $7)
  ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, wall = excluded.wall, anchor = excluded.anchor,
  anchor_wall = excluded.anchor_wall, next_at = excluded.next_at, paused = excluded.paused,
  catch_up_to = NULL`
const SAVE = `UPDATE sluice.schedules SET next_at = (e.value ->> 1)::bigint, catch_up_to = (e.value ->> 2)::bigint,
  runs = (e.value ->> 3)::int, last_due = (e.value ->> 4)::bigint, last_job = (e.value ->> 5)::uuid,
  paused = (e.value ->> 6)::bigint FROM json_array_elements($1::json) e WHERE name = e.value ->> 0`

/** Registers a schedule. */
export function* schedule(access: Access, given: NewSchedule): Reading<Scheduled> {
  const { name, recurrence } = given
  const known = yield* find(access, name)
  const { planned, answer } = register(given, known, yield* now(access))
  if (!planned) return answer
  const { anchorUs, anchorWallUs, nextUs, pausedUs } = planned
  access.unreadable.delete(name)
  const wall = recurrence.kind === 'cron'
  yield* run(access.db, UPSERT, name, JSON.stringify(given), wall, anchorUs, anchorWallUs, nextUs, pausedUs)
  return answer
}

/** Every schedule, by name. */
export function* schedules(access: Access): Reading<ScheduleRecord[]> {
  const instant = yield* now(access)
  const rows = yield* all(access.db, `${SELECT} ORDER BY name`)
  return rows.flatMap((row) => scheduleOf(row) ?? []).map((stored) => toRecord(stored, instant))
}

/** Deletes a schedule; its jobs stay unchanged. */
export function* unschedule({ db, lockSchedules }: Access, name: string): Reading<boolean> {
  yield* ask(lockSchedules)
  return (yield* run(db, 'DELETE FROM sluice.schedules WHERE name = $1', name)) > 0
}

/** Pauses a schedule, or ends its pause. */
export function* pauseSchedule(access: Access, name: string, paused: boolean): Reading<ScheduleRecord | null> {
  const stored = yield* find(access, name)
  if (!stored) return null
  const instant = yield* now(access)
  if (paused) pause(stored)
  // Another process may know the time zone, and finds the next occurrence from the missed one on.
  else if (isReadable(access.unreadable, stored)) resume(stored, instant)
  else if (stored.pausedUs !== null) Object.assign(stored, { nextUs: stored.pausedUs, pausedUs: null })
  yield* saveSchedules(access, [stored])
  return toRecord(stored, instant)
}

/** The schedules that match a condition. @throws SyntaxError so that the store sets an unreadable row aside */
export function* schedulesWhere({ db }: Access, where: string, ...values: SqlValue[]): Reading<StoredSchedule[]> {
  return (yield* all(db, `${SELECT} WHERE ${where}`, ...values)).map(storedIn)
}

/** Writes the progress of several series. */
export function* saveSchedules({ db }: Access, changed: readonly StoredSchedule[]): Reading<void> {
  if (changed.length === 0) return
  const rows = changed.map(({ spec, nextUs, catchUpToUs, runs, lastDueUs, lastJob, pausedUs }) => [
    spec.name,
    nextUs,
    catchUpToUs,
    runs,
    lastDueUs,
    lastJob,
    pausedUs,
  ])
  yield* run(db, SAVE, JSON.stringify(rows))
}

function* find({ db, lockSchedules }: Access, name: string): Reading<StoredSchedule | null> {
  yield* ask(lockSchedules)
  return scheduleOf(yield* get(db, `${SELECT} WHERE name = $1`, name))
}

/** The schedule in a row; null: there is no row, or it is unreadable. */
function scheduleOf(row: readonly unknown[] | undefined): StoredSchedule | null {
  return row && isSchedule(SCHEDULE.read(row).spec) ? storedIn(row) : null
}

function storedIn(row: readonly unknown[]): StoredSchedule {
  const fields = SCHEDULE.read(row)
  return { ...fields, spec: JSON.parse(fields.spec) as NewSchedule }
}

/**
 * The result of registering a schedule. A changed one keeps its count of runs, and keeps its grid unless the change
 * affects it. A paused one stays paused, since every start of an engine registers its schedules again.
 */
function register(
  given: NewSchedule,
  known: StoredSchedule | null,
  instant: Instant,
): { readonly planned: StoredSchedule | null; readonly answer: Scheduled } {
  if (known && JSON.stringify(known.spec) === JSON.stringify(given))
    return { planned: null, answer: { kind: 'unchanged', schedule: toRecord(known, instant) } }
  const sameGrid = known && JSON.stringify(known.spec.recurrence) === JSON.stringify(given.recurrence)
  const planned = sameGrid ? { ...known, spec: given, catchUpToUs: null } : begin(given, known, instant)
  const nextUs = planned.pausedUs ?? planned.nextUs ?? firstFrom(planned, clockOf(planned, instant))
  planned.nextUs = upcoming(planned, nextUs, instant)
  planned.pausedUs = null
  if (known && known.pausedUs !== null) pause(planned)
  return { planned, answer: { kind: known ? 'updated' : 'created', schedule: toRecord(planned, instant) } }
}

/**
 * Whether this process can compute the due times of a schedule. Another process may know more time zones. A schedule in
 * an unknown zone is remembered and skipped, so that it does not block the rest of a claim.
 */
export function isReadable(unreadable: Set<string>, { spec }: StoredSchedule): boolean {
  try {
    firstDueUs(spec.recurrence, 0, 0)
    return true
  } catch {
    unreadable.add(spec.name)
    return false
  }
}

/** A schedule whose limits admit nothing for long looks at them again after this time. */
const LOOK_AGAIN_US = 60_000_000

/**
 * When a schedule looks at its limits again that admit nothing before `resumeUs`: the end of an override, a change or
 * units that return may open them sooner. All on the store's clock.
 */
export function* looksAgainUs(access: Access, resumeUs: number, nowUs: number): Reading<number> {
  const { nextEndUs } = yield* ask(() => access.limits())
  return Math.min(resumeUs, Math.max(nowUs, nextEndUs), nowUs + LOOK_AGAIN_US)
}

/**
 * Skips an occurrence that waited and cannot start in time. It does not count as a run. Its series continues with the
 * first occurrence due once its limits admit it.
 * @param resumeUs on the store's clock; null: not known
 */
export function* skipOccurrence(
  access: Access,
  name: string,
  resumeUs: number | null,
  instant: Instant,
): Reading<void> {
  const schedule = yield* find(access, name)
  if (!schedule) return
  const clockUs = clockOf(schedule, instant)
  const againUs = resumeUs === null ? instant.nowUs : yield* looksAgainUs(access, resumeUs, instant.nowUs)
  const fromUs = Math.max(clockUs, clockUs + againUs - instant.nowUs)
  schedule.runs = Math.max(0, schedule.runs - 1)
  if (schedule.pausedUs === null && isReadable(access.unreadable, schedule)) {
    if (schedule.nextUs === null || (schedule.nextUs < fromUs && resumeUs !== null))
      schedule.nextUs = upcoming(schedule, firstFrom(schedule, fromUs), instant)
    // Exhausted limits end the catching up with missed occurrences.
    if (schedule.nextUs === null || schedule.nextUs > (schedule.catchUpToUs ?? 0)) schedule.catchUpToUs = null
  }
  yield* saveSchedules(access, [schedule])
}
