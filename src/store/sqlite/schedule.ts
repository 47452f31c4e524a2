import { firstDueUs } from '../../jobs/recurrence.ts'
import type { Occurrence } from '../../jobs/job.ts'
import type { NewSchedule, ScheduleRecord } from '../../jobs/schedule.ts'
import type { Scheduled } from '../schedules.ts'
import type { Context } from './context.ts'
import type { Instant } from './store-clock.ts'

/** A schedule within one transaction. Its times are the wall clock's for a cron, the store's for even distances. */
export interface StoredSchedule {
  readonly spec: NewSchedule
  /** A due time, and what the wall clock showed then. */
  readonly anchorUs: number
  readonly anchorWallUs: number
  /** Null: the series has ended. */
  nextUs: number | null
  /** Set while missed occurrences, up to this one, wait for the end of the last job. */
  catchUpToUs: number | null
  runs: number
  /** Wall clock. */
  lastDueUs: number | null
  lastJob: string | null
}

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
/** Clocks that drift apart by less were only read at different moments. */
const STEP_US = 100_000

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
    .map((row) => toRecord(fromRow(row), instant))
}

/** Forgets a schedule; its jobs stay as they are. */
export function unschedule(context: Context, name: string): boolean {
  return context.db.run('DELETE FROM schedules WHERE name = ?', name) > 0
}

/** A schedule by its name. */
export function find(context: Context, name: string): StoredSchedule | null {
  const row = context.db.get<Row>(`SELECT ${COLUMNS} FROM schedules WHERE name = ?`, name)
  return row ? fromRow(row) : null
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

/** A due time if the series goes on so far, else null: its runs are used up, or its end has come. */
export function upcoming(stored: StoredSchedule, dueUs: number | null, instant: Instant): number | null {
  const { maxRuns, untilMs } = stored.spec
  if (dueUs === null || (maxRuns !== null && stored.runs >= maxRuns)) return null
  return untilMs !== null && wallOf(stored, dueUs, instant) >= untilMs * 1000 ? null : dueUs
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

/** The first due time of a schedule at or after a time on its clock. */
export function firstFrom({ spec, anchorUs }: StoredSchedule, fromUs: number): number | null {
  return firstDueUs(spec.recurrence, anchorUs, fromUs)
}

/** The clock that a schedule's due times are read on. */
export function clockOf({ spec }: StoredSchedule, { nowUs, wallUs }: Instant): number {
  return spec.recurrence.kind === 'cron' ? wallUs : nowUs
}

/**
 * What the wall clock shows at a time of a schedule. While the wall is not stepped that is counted from the anchor on: two readings
 * of two clocks lie up to 1 ms apart, and neither a due time nor the end of a series may tremble.
 */
export function wallOf(stored: StoredSchedule, us: number, { nowUs, wallUs }: Instant): number {
  if (stored.spec.recurrence.kind === 'cron') return us
  const atAnchor = stored.anchorWallUs - stored.anchorUs
  const now = wallUs - nowUs
  return us + (Math.abs(now - atAnchor) < STEP_US ? atAnchor : now)
}

/** What a job's columns say of the occurrence that it is. */
export function occurrenceOf(schedule: string | null, occurs: number | null): { readonly occurrence?: Occurrence } {
  return schedule === null || occurs === null ? {} : { occurrence: { schedule, dueMs: occurs / 1000 } }
}

/** The grid of even distances begins with the registration, that of a cron is the calendar's. */
function begin(given: NewSchedule, known: StoredSchedule | null, instant: Instant): StoredSchedule {
  const { recurrence } = given
  const { nowUs, wallUs } = instant
  const fromUs = recurrence.kind === 'cron' ? wallUs : nowUs
  const first = recurrence.kind === 'cron' ? firstDueUs(recurrence, 0, fromUs + 1) : fromUs + recurrence.everyUs
  return {
    spec: given,
    anchorUs: fromUs,
    anchorWallUs: wallUs,
    nextUs: given.immediately && !known ? fromUs : first,
    catchUpToUs: null,
    runs: known?.runs ?? 0,
    lastDueUs: known?.lastDueUs ?? null,
    lastJob: known?.lastJob ?? null,
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

function toRecord(stored: StoredSchedule, instant: Instant): ScheduleRecord {
  const { spec, nextUs, lastDueUs, lastJob, runs } = stored
  return {
    ...spec,
    nextDueMs: nextUs === null ? null : wallOf(stored, nextUs, instant) / 1000,
    lastDueMs: lastDueUs === null ? null : lastDueUs / 1000,
    lastJob,
    runs,
  }
}
