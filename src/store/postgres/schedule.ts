import type { Statements } from '../../database/postgres.ts'
import { firstDueUs } from '../../jobs/recurrence.ts'
import type { NewSchedule, ScheduleRecord } from '../../jobs/schedule.ts'
import { begin, clockOf, firstFrom, type Instant, type StoredSchedule, toRecord, upcoming } from '../shared/series.ts'
import type { Scheduled } from '../contract/schedules.ts'
import { isSchedule } from '../shared/set-aside.ts'
import type { Context } from './context.ts'

type Row = [
  spec: string,
  anchor: number,
  anchorWall: number,
  next: number | null,
  catchUpTo: number | null,
  runs: number,
  lastDue: number | null,
  lastJob: string | null,
]

const COLUMNS = 'spec, anchor, anchor_wall, next_at, catch_up_to, runs, last_due, last_job'
const UPSERT = `INSERT INTO sluice.schedules (name, spec, wall, anchor, anchor_wall, next_at) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO UPDATE SET
  spec = excluded.spec, wall = excluded.wall, anchor = excluded.anchor, anchor_wall = excluded.anchor_wall, next_at = excluded.next_at, catch_up_to = NULL`

/** Whoever changes schedules does so alone: a series is moved on by one at a time. */
export async function lockSchedules(db: Statements): Promise<void> {
  await db.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.schedules'), 0)`)
}

/** Registers a schedule. A changed one keeps its count of runs, and its grid if that was not what changed. */
export async function schedule(
  { unreadable }: Context,
  db: Statements,
  instant: Instant,
  given: NewSchedule,
): Promise<Scheduled> {
  await lockSchedules(db)
  const known = await find(db, given.name)
  if (known && JSON.stringify(known.spec) === JSON.stringify(given))
    return { kind: 'unchanged', schedule: toRecord(known, instant) }
  const sameGrid = known && JSON.stringify(known.spec.recurrence) === JSON.stringify(given.recurrence)
  const planned = sameGrid ? { ...known, spec: given, catchUpToUs: null } : begin(given, known, instant)
  planned.nextUs = upcoming(planned, planned.nextUs ?? firstFrom(planned, clockOf(planned, instant)), instant)
  const { anchorUs, anchorWallUs, nextUs } = planned
  unreadable.delete(given.name)
  const wall = given.recurrence.kind === 'cron'
  await db.run(UPSERT, given.name, JSON.stringify(given), wall, anchorUs, anchorWallUs, nextUs)
  return { kind: known ? 'updated' : 'created', schedule: toRecord(planned, instant) }
}

/** Every schedule, by name. */
export async function schedules(db: Statements, instant: Instant): Promise<ScheduleRecord[]> {
  const rows = await db.all<Row>(`SELECT ${COLUMNS} FROM sluice.schedules ORDER BY name`)
  return rows.filter(([spec]) => isSchedule(spec)).map((row) => toRecord(fromRow(row), instant))
}

/** Forgets a schedule; its jobs stay as they are. */
export async function unschedule(db: Statements, name: string): Promise<boolean> {
  await lockSchedules(db)
  return (await db.run('DELETE FROM sluice.schedules WHERE name = $1', name)) > 0
}

/** A schedule by its name. */
export async function find(db: Statements, name: string): Promise<StoredSchedule | null> {
  const row = await db.get<Row>(`SELECT ${COLUMNS} FROM sluice.schedules WHERE name = $1`, name)
  return row && isSchedule(row[0]) ? fromRow(row) : null
}

/** The schedules that a condition names. */
export async function findAll(
  db: Statements,
  where: string,
  ...values: (number | boolean)[]
): Promise<StoredSchedule[]> {
  const rows = await db.all<Row>(`SELECT ${COLUMNS} FROM sluice.schedules WHERE ${where}`, ...values)
  return rows.map(fromRow)
}

/**
 * Whether this process can tell when a schedule is due. One whose time zone it does not know, as another process may, is remembered and
 * left alone: it must not hold up what else a claim does.
 */
export function isReadable({ unreadable }: Context, { spec }: StoredSchedule): boolean {
  try {
    firstDueUs(spec.recurrence, 0, 0)
    return true
  } catch {
    unreadable.add(spec.name)
    return false
  }
}

/** Writes back what a firing or a skip changed. */
export async function save(
  db: Statements,
  { spec, nextUs, catchUpToUs, runs, lastDueUs, lastJob }: StoredSchedule,
): Promise<void> {
  await db.run(
    'UPDATE sluice.schedules SET next_at = $1, catch_up_to = $2, runs = $3, last_due = $4, last_job = $5 WHERE name = $6',
    nextUs,
    catchUpToUs,
    runs,
    lastDueUs,
    lastJob,
    spec.name,
  )
}

function fromRow([spec, anchorUs, anchorWallUs, nextUs, catchUpToUs, runs, lastDueUs, lastJob]: Row): StoredSchedule {
  return {
    spec: JSON.parse(spec) as NewSchedule,
    anchorUs,
    anchorWallUs,
    nextUs,
    catchUpToUs,
    runs,
    lastDueUs,
    lastJob,
  }
}
