/** A stored series of occurrences: the next one, and its clock. Pure; backends supply the rows. */
import type { Occurrence } from './job.ts'
import { firstDueUs } from './recurrence.ts'
import type { NewSchedule, ScheduleRecord } from './schedule.ts'

/** Two readings of one instant. Limits, leases and retries use the store's clock, `runAt` and expiry the wall clock. */
export interface Instant {
  readonly nowUs: number
  readonly wallUs: number
}

/** A smaller difference between two clocks only means that they were read at different moments. */
const STEP_US = 100_000

/** A schedule within one transaction. Its times use the wall clock for a cron, the store's for even distances. */
export interface StoredSchedule {
  readonly spec: NewSchedule
  /** A due time, with the wall clock at that time. */
  readonly anchorUs: number
  readonly anchorWallUs: number
  /** Null: the series is paused or has ended. */
  nextUs: number | null
  /** Set while missed occurrences, up to this one, wait for the end of the last job. */
  catchUpToUs: number | null
  runs: number
  /** Wall clock. */
  lastDueUs: number | null
  lastJob: string | null
  /** Set while the series is paused: when its next occurrence was due. */
  pausedUs: number | null
}

/** A due time within the series; null: its runs are used up, or its end has come. */
export function upcoming(stored: StoredSchedule, dueUs: number | null, instant: Instant): number | null {
  const { maxRuns, untilMs } = stored.spec
  if (dueUs === null || (maxRuns !== null && stored.runs >= maxRuns)) return null
  return untilMs !== null && wallOf(stored, dueUs, instant) >= untilMs * 1000 ? null : dueUs
}

/** The first due time of a schedule at or after a time on its clock. */
export function firstFrom({ spec, anchorUs }: StoredSchedule, fromUs: number): number | null {
  return firstDueUs(spec.recurrence, anchorUs, fromUs)
}

/** The clock of a schedule's due times. */
export function clockOf({ spec }: StoredSchedule, { nowUs, wallUs }: Instant): number {
  return spec.recurrence.kind === 'cron' ? wallUs : nowUs
}

/**
 * The wall clock at a time of a schedule. Without a step of the wall it counts from the anchor. Two readings of two
 * clocks differ by up to 1 ms, which must change neither a due time nor the end of a series.
 */
export function wallOf(stored: StoredSchedule, us: number, { nowUs, wallUs }: Instant): number {
  if (stored.spec.recurrence.kind === 'cron') return us
  const atAnchor = stored.anchorWallUs - stored.anchorUs
  const now = wallUs - nowUs
  return us + (Math.abs(now - atAnchor) < STEP_US ? atAnchor : now)
}

/** The occurrence in a job's columns. */
export function occurrenceOf(schedule: string | null, occurs: number | null): { readonly occurrence?: Occurrence } {
  return schedule === null || occurs === null ? {} : { occurrence: { schedule, dueMs: occurs / 1000 } }
}

/**
 * Starts or changes a series. The grid of even distances begins with the registration, that of a cron is the
 * calendar's.
 */
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
    pausedUs: null,
  }
}

/**
 * Pauses a series that has not ended. Without a next due time no claim fires it: a paused series costs nothing, and
 * processes of older versions leave it alone too.
 */
export function pause(stored: StoredSchedule): void {
  stored.pausedUs ??= stored.nextUs
  stored.nextUs = null
  stored.catchUpToUs = null
}

/**
 * Ends a pause. The series continues with its first occurrence from now on, or, if it catches up, with the first one
 * that it missed.
 */
export function resume(stored: StoredSchedule, instant: Instant): void {
  const { pausedUs } = stored
  if (pausedUs === null) return
  const clockUs = clockOf(stored, instant)
  const isMissed = pausedUs <= clockUs
  const catchesUp = isMissed && stored.spec.onMissed === 'catchUp'
  // A later one is computed again: the clock may have gone back since the pause.
  const nextUs = catchesUp ? pausedUs : firstFrom(stored, isMissed ? clockUs : clockUs + 1)
  stored.pausedUs = null
  stored.nextUs = upcoming(stored, nextUs, instant)
}

/** The public record of a schedule. */
export function toRecord(stored: StoredSchedule, instant: Instant): ScheduleRecord {
  const { spec, nextUs, lastDueUs, lastJob, runs, pausedUs } = stored
  return {
    ...spec,
    nextDueMs: nextUs === null ? null : wallOf(stored, nextUs, instant) / 1000,
    lastDueMs: lastDueUs === null ? null : lastDueUs / 1000,
    lastJob,
    runs,
    paused: pausedUs !== null,
  }
}
