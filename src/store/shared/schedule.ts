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

/** The columns of a schedule. */
export const SCHEDULE_COLUMNS: string = SCHEDULE.list

/** The queries that the rules of schedules need of a store, within one transaction. */
export interface ScheduleAccess {
  find(name: string): StoredSchedule | null | Promise<StoredSchedule | null>
  save(schedule: StoredSchedule): unknown
  /** Names of schedules in time zones that this process does not know. */
  readonly unreadable: Set<string>
}

/** The schedule in a row; null: there is no row, or it is unreadable. */
export function scheduleOf(row: readonly unknown[] | undefined): StoredSchedule | null {
  return row && isSchedule(SCHEDULE.read(row).spec) ? dueSchedule(row) : null
}

/** The due schedule in a row. @throws SyntaxError so that the store sets an unreadable row aside */
export function dueSchedule(row: readonly unknown[]): StoredSchedule {
  const fields = SCHEDULE.read(row)
  return { ...fields, spec: JSON.parse(fields.spec) as NewSchedule }
}

/**
 * The result of registering a schedule. A changed one keeps its count of runs, and keeps its grid unless the change
 * affects it.
 */
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

/**
 * Skips an occurrence that waited and cannot start in time. It does not count as a run. Its series continues with the
 * first occurrence due once its limits admit it.
 * @param resumeUs on the store's clock; null: not known
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
    // Exhausted limits end the catching up with missed occurrences.
    if (schedule.nextUs === null || schedule.nextUs > (schedule.catchUpToUs ?? 0)) schedule.catchUpToUs = null
  }
  yield* ask(() => access.save(schedule))
}
