import { systemClock } from '../../base/clock.ts'
import { fromJsonText, objectIn } from '../../base/json-value.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { NewSchedule } from '../../jobs/schedule.ts'
import type { StoredJob } from '../../store/contract/find-jobs.ts'
import type { JobDetails } from '../../store/contract/remote-jobs.ts'
import type { Store } from '../../store/contract/store.ts'
import type { WrittenLine } from './lines.ts'

/** The states of jobs that another store can take over. */
const MOVABLE: readonly JobState[] = ['available', 'scheduled', 'retryable', 'pending']
const PAGE = 200

/** The number of lines, by kind, and of the jobs that stay behind. */
export interface Exported {
  limits: number
  schedules: number
  jobs: number
  /** Running jobs, jobs of flows, and those whose limits are unreadable or not resolved yet. */
  leftOut: number
}

/** Writes limits, schedules and jobs, the newest job first. Jobs that start meanwhile are left out. */
export async function writeLines(store: Store, write: (line: WrittenLine) => Promise<void>): Promise<Exported> {
  const done: Exported = { limits: 0, schedules: 0, jobs: 0, leftOut: 0 }
  for (const { name, version, policy } of await store.limits()) {
    await write({ kind: 'limit', name, version, policy })
    done.limits++
  }
  for (const schedule of await store.schedules()) {
    await write(scheduleLine(schedule, schedule.paused))
    done.schedules++
  }
  done.leftOut += await store.countJobs({ states: ['active'] })
  for (let before: number | undefined; ;) {
    const page = await store.list({ states: MOVABLE, limit: PAGE, ...(before !== undefined && { before }) })
    const movable = page.flatMap(({ id, flow }) => (flow ? [] : id))
    done.leftOut += page.length - movable.length
    for (const job of await store.storedJobs(movable)) {
      const line = lineOf(store, job)
      if (line) await write(line)
      if (line) done.jobs++
      else done.leftOut++
    }
    before = page.at(-1)?.seq
    if (page.length < PAGE) return done
  }
}

/** The line of a schedule. Two schedules with the same line make the same jobs at the same times. */
export function scheduleLine(schedule: NewSchedule, paused: boolean): WrittenLine {
  const { name, recurrence, immediately, untilMs, maxRuns, overlap, onMissed, job } = schedule
  const until = timeOf(untilMs)
  const known = { name, recurrence: { ...recurrence }, immediately, until, maxRuns, overlap, onMissed, paused }
  return { kind: 'schedule', ...known, job: { ...plainOf(job), ...(job.terms && termsOf(job.terms)) } }
}

/** Null: the job has started or ended meanwhile, an engine has to resolve its limits first, or they are unreadable. */
function lineOf(store: Store, job: StoredJob | null): WrittenLine | null {
  if (!job || job.isUnresolved || !MOVABLE.includes(job.state)) return null
  const { fairKey, ...rest } = job
  const { dueUs, expiresMs, id, leaseUs, state, timeoutUs, uniqueKey } = job
  return {
    kind: 'job',
    id,
    ...plainOf({ ...rest, ...(fairKey !== null && { fairKey }) }),
    ...timesOf({ leaseUs, timeoutUs }),
    runAt: dueUs === null || state === 'available' ? null : timeOf(wallOf(store, state, dueUs)),
    expiresAt: timeOf(expiresMs),
    uniqueKey,
    ...(state === 'pending' && { pending: true }),
  }
}

/** A scheduled job waits for the wall clock, a retryable one for the store's. */
function wallOf(store: Store, state: JobState, dueUs: number): number {
  return state === 'scheduled' ? dueUs / 1000 : systemClock.now() + (dueUs - store.nowUs()) / 1000
}

function plainOf(job: Omit<NewSchedule['job'], 'terms'>): Record<string, unknown> {
  const { task, queue, priority, input, uses, maxAttempts, extra, fairKey, share } = job
  return {
    task,
    queue,
    priority,
    input: fromJsonText(input, null),
    uses: uses.map(({ limit, key, weight }) => ({ limit, key, weight })),
    maxAttempts,
    extra: extra === null ? null : objectIn(extra),
    ...(fairKey !== undefined && { fairKey }),
    ...(share !== undefined && { share }),
  }
}

function termsOf({ deadLetter, ...times }: NonNullable<NewSchedule['job']['terms']>): Record<string, unknown> {
  return { ...timesOf(times), deadLetter }
}

function timesOf({ leaseUs, timeoutUs }: Pick<JobDetails, 'leaseUs' | 'timeoutUs'>): Record<string, unknown> {
  return {
    timeoutMs: timeoutUs === null ? null : timeoutUs / 1000,
    leaseMs: leaseUs === null ? null : leaseUs / 1000,
  }
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}
