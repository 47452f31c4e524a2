/** A series of occurrences as a store keeps it: what comes next, and on which clock. Pure; backends bring the rows. */
import type { Occurrence } from '../../jobs/job.ts'
import { firstDueUs } from '../../jobs/recurrence.ts'
import type { NewSchedule, ScheduleRecord } from '../../jobs/schedule.ts'

/** Two readings of one instant: limits, leases and retries go by the store's clock, `runAt` and expiry by the wall. */
export interface Instant {
  readonly nowUs: number
  readonly wallUs: number
}

/** Clocks that drift apart by less were only read at different moments. */
const STEP_US = 100_000

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

/** A due time if the series goes on so far, else null: its runs are used up, or its end has come. */
export function upcoming(stored: StoredSchedule, dueUs: number | null, instant: Instant): number | null {
  const { maxRuns, untilMs } = stored.spec
  if (dueUs === null || (maxRuns !== null && stored.runs >= maxRuns)) return null
  return untilMs !== null && wallOf(stored, dueUs, instant) >= untilMs * 1000 ? null : dueUs
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
export function begin(given: NewSchedule, known: StoredSchedule | null, instant: Instant): StoredSchedule {
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

/** A schedule as its owner sees it. */
export function toRecord(stored: StoredSchedule, instant: Instant): ScheduleRecord {
  const { spec, nextUs, lastDueUs, lastJob, runs } = stored
  return {
    ...spec,
    nextDueMs: nextUs === null ? null : wallOf(stored, nextUs, instant) / 1000,
    lastDueMs: lastDueUs === null ? null : lastDueUs / 1000,
    lastJob,
    runs,
  }
}
