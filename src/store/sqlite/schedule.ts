import { firstDueUs } from '../../jobs/recurrence.ts'
import type { NewSchedule, ScheduleRecord } from '../../jobs/schedule.ts'
import type { Scheduled } from '../contract/schedules.ts'
import { begin, clockOf, firstFrom, type StoredSchedule, toRecord, upcoming } from '../shared/series.ts'
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
const UPSERT = `INSERT INTO schedules (name, spec, wall, anchor, anchor_wall, next_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
  spec = excluded.spec, wall = excluded.wall, anchor = excluded.anchor, anchor_wall = excluded.anchor_wall, next_at = excluded.next_at, catch_up_to = NULL`

/** Registers a schedule. A changed one keeps its count of runs, and its grid if that was not what changed. */
export function schedule(context: Context, given: NewSchedule): Scheduled {
  const instant = context.clock.read()
  const known = find(context, given.name)
  if (known && JSON.stringify(known.spec) === JSON.stringify(given))
    return { kind: 'unchanged', schedule: toRecord(known, instant) }
  const sameGrid = known && JSON.stringify(known.spec.recurrence) === JSON.stringify(given.recurrence)
  const planned = sameGrid ? { ...known, spec: given, catchUpToUs: null } : begin(given, known, instant)
  planned.nextUs = upcoming(planned, planned.nextUs ?? firstFrom(planned, clockOf(planned, instant)), instant)
  const { anchorUs, anchorWallUs, nextUs } = planned
  const wall = given.recurrence.kind === 'cron' ? 1 : 0
  context.unreadable.delete(given.name)
  context.db.run(UPSERT, given.name, JSON.stringify(given), wall, anchorUs, anchorWallUs, nextUs)
  return { kind: known ? 'updated' : 'created', schedule: toRecord(planned, instant) }
}

/** Every schedule, by name. */
export function schedules(context: Context): ScheduleRecord[] {
  const instant = context.clock.read()
  return context.db
    .all<Row>(`SELECT ${COLUMNS} FROM schedules ORDER BY name`)
    .filter(([spec]) => isSchedule(spec))
    .map((row) => toRecord(fromRow(row), instant))
}

/** Forgets a schedule; its jobs stay as they are. */
export function unschedule(context: Context, name: string): boolean {
  return context.db.run('DELETE FROM schedules WHERE name = ?', name) > 0
}

/** A schedule by its name. */
export function find(context: Context, name: string): StoredSchedule | null {
  const row = context.db.get<Row>(`SELECT ${COLUMNS} FROM schedules WHERE name = ?`, name)
  return row && isSchedule(row[0]) ? fromRow(row) : null
}

/** The schedules that a condition names. */
export function findAll(context: Context, where: string, ...values: number[]): StoredSchedule[] {
  return context.db.all<Row>(`SELECT ${COLUMNS} FROM schedules WHERE ${where}`, ...values).map(fromRow)
}

/** Writes back what a firing or a skip changed. */
export function save(context: Context, { spec, nextUs, catchUpToUs, runs, lastDueUs, lastJob }: StoredSchedule): void {
  context.db.run(
    'UPDATE schedules SET next_at = ?, catch_up_to = ?, runs = ?, last_due = ?, last_job = ? WHERE name = ?',
    nextUs,
    catchUpToUs,
    runs,
    lastDueUs,
    lastJob,
    spec.name,
  )
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
