/** Recurring work as both stores keep it: its row, and the rules of registering and skipping. */
import { firstDueUs } from '../../jobs/recurrence.ts'
import type { NewSchedule } from '../../jobs/schedule.ts'
import type { Scheduled } from '../contract/schedules.ts'
import { column, columns } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import { begin, clockOf, firstFrom, type Instant, type StoredSchedule, toRecord, upcoming } from './series.ts'
import { isSchedule } from './set-aside.ts'

const SCHEDULE = columns({
  spec: column<string>(),
  anchorUs: column<number>('anchor'),
  anchorWallUs: column<number>('anchor_wall'),
  nextUs: column<number | null>('next_at'),
  catchUpToUs: column<number | null>('catch_up_to'),
  runs: column<number>(),
  lastDueUs: column<number | null>('last_due'),
  lastJob: column<string | null>('last_job'),
})

/** The columns that a schedule is read from. */
export const SCHEDULE_COLUMNS: string = SCHEDULE.list

/** What the rules of schedules ask of a store, within one transaction. */
export interface ScheduleAccess {
  find(name: string): StoredSchedule | null | Promise<StoredSchedule | null>
  save(schedule: StoredSchedule): unknown
  /** Names of schedules in time zones that this process does not know. */
  readonly unreadable: Set<string>
}

/** A schedule, of its row; null: there is none, or what it says cannot be read. */
export function scheduleOf(row: readonly unknown[] | undefined): StoredSchedule | null {
  return row && isSchedule(SCHEDULE.read(row).spec) ? dueSchedule(row) : null
}

/** A schedule that is due, of its row. @throws SyntaxError so that a row that cannot be read is put aside */
export function dueSchedule(row: readonly unknown[]): StoredSchedule {
  const fields = SCHEDULE.read(row)
  return { ...fields, spec: JSON.parse(fields.spec) as NewSchedule }
}

/** What registering a schedule comes to. A changed one keeps its count of runs, and its grid unless the change is of that. */
export function register(
  given: NewSchedule,
  known: StoredSchedule | null,
  instant: Instant,
): { readonly planned: StoredSchedule | null; readonly answer: Scheduled } {
  if (known && JSON.stringify(known.spec) === JSON.stringify(given))
    return { planned: null, answer: { kind: 'unchanged', schedule: toRecord(known, instant) } }
  const sameGrid = known && JSON.stringify(known.spec.recurrence) === JSON.stringify(given.recurrence)
  const planned = sameGrid ? { ...known, spec: given, catchUpToUs: null } : begin(given, known, instant)
  planned.nextUs = upcoming(planned, planned.nextUs ?? firstFrom(planned, clockOf(planned, instant)), instant)
  return { planned, answer: { kind: known ? 'updated' : 'created', schedule: toRecord(planned, instant) } }
}

/**
 * Whether this process can tell when a schedule is due. One in a time zone that it does not know, as another process may, is remembered
 * and left alone: it must not hold up what else a claim does.
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

/**
 * An occurrence that waited will not start in time: it was no run, and its series goes on with the first one due when its limits
 * let it start again.
 * @param resumeUs on the store's clock; null: not known.
 */
export function* skipOccurrence(
  access: ScheduleAccess,
  name: string,
  resumeUs: number | null,
  instant: Instant,
): Reading<void> {
  const schedule = yield* ask(() => access.find(name))
  if (!schedule) return
  const clockUs = clockOf(schedule, instant)
  const fromUs = resumeUs === null ? clockUs : Math.max(clockUs, clockUs + resumeUs - instant.nowUs)
  schedule.runs = Math.max(0, schedule.runs - 1)
  if (isReadable(access.unreadable, schedule)) {
    if (schedule.nextUs === null || (schedule.nextUs < fromUs && resumeUs !== null))
      schedule.nextUs = upcoming(schedule, firstFrom(schedule, fromUs), instant)
    // Limits that are used up have ended the making up for what was missed.
    if (schedule.nextUs === null || schedule.nextUs > (schedule.catchUpToUs ?? 0)) schedule.catchUpToUs = null
  }
  yield* ask(() => access.save(schedule))
}
