import { latestDuesUs } from '../../jobs/recurrence.ts'
import type { ScheduleNews, SkipReason } from '../../jobs/schedule.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import { clockOf, firstFrom, type StoredSchedule, upcoming, wallOf } from '../shared/series.ts'
import type { Context } from './context.ts'
import { enqueue } from './enqueue.ts'
import { portion } from './portion.ts'
import { find, findAll, isReadable, save } from './schedule.ts'
import { startsTooLateUs } from './skip.ts'
import { LIVE_STATES } from '../shared/state.ts'
import type { Instant } from './store-clock.ts'
import { attendedSinceUs } from './workers.ts'

/** The next due times on both clocks, and a schedule whose missed occurrences wait no longer. */
type Look = [storeUs: number | null, wallUs: number | null, released: string | null]

/** Names of schedules whose time zone this process does not know, as JSON: others may fire them. */
const KNOWN = 'AND name NOT IN (SELECT value FROM json_each(?1))'
const LOOK = lookOf('')
const LOOK_AT_KNOWN = lookOf(KNOWN)
const DUE = 'catch_up_to IS NULL AND next_at IS NOT NULL AND wall = ? AND next_at <= ? ORDER BY next_at'
/** Missed occurrences that are caught up with, at most; the older ones are skipped. */
const CATCH_UP_AT_MOST = 1000
/** Whoever begins to work this soon after a due time was there: a restart takes a moment. */
const MISSED_AFTER_US = 1_000_000

/** What firing came to, and when to fire again, on the store's clock. */
export interface Fired {
  readonly news: readonly ScheduleNews[]
  readonly nextUs: number
}

/**
 * Makes jobs of the occurrences that are due, and moves their schedules on; what is beyond `limit` stays due.
 * Whoever claims first does it, for all processes: this transaction alone holds the file's write lock.
 */
export function fire(context: Context, instant: Instant, limit: number): Fired {
  const next = look(context)
  const nextUs = nextOf(next, instant)
  const news: ScheduleNews[] = []
  if (nextUs > instant.nowUs) return { news, nextUs }
  const held = next[2] === null ? null : find(context, next[2])
  const due = [
    ...(held ? [held] : []),
    ...findAll(context, `${DUE} LIMIT ${portion(limit)}`, 0, instant.nowUs),
    ...findAll(context, `${DUE} LIMIT ${portion(limit)}`, 1, instant.wallUs),
  ].filter((schedule) => isReadable(context, schedule))
  for (const schedule of due) if (news.length < limit) new Firing(context, schedule, instant, news).run()
  return { news, nextUs: nextFireUs(context, instant) }
}

/** When the next occurrence is due, on the store's clock. */
export function nextFireUs(context: Context, instant: Instant): number {
  return nextOf(look(context), instant)
}

function look({ db, unreadable }: Context): Look {
  if (unreadable.size === 0) return db.get<Look>(LOOK) as Look
  return db.get<Look>(LOOK_AT_KNOWN, JSON.stringify([...unreadable])) as Look
}

function lookOf(which: string): string {
  const next = `SELECT next_at FROM schedules WHERE catch_up_to IS NULL AND next_at IS NOT NULL ${which} AND wall =`
  return `SELECT (${next} 0 ORDER BY next_at LIMIT 1), (${next} 1 ORDER BY next_at LIMIT 1), (SELECT s.name FROM schedules s
    WHERE s.catch_up_to IS NOT NULL ${which} AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = s.last_job AND j.state IN (${LIVE_STATES})) LIMIT 1)`
}

function nextOf([storeUs, onWallUs, released]: Look, { nowUs, wallUs }: Instant): number {
  if (released !== null) return nowUs
  return Math.min(storeUs ?? NEVER_US, onWallUs === null ? NEVER_US : nowUs + Math.max(0, onWallUs - wallUs))
}

/** One schedule whose time has come. */
class Firing {
  readonly #context: Context
  readonly #schedule: StoredSchedule
  readonly #instant: Instant
  readonly #news: ScheduleNews[]
  readonly #clockUs: number

  constructor(context: Context, schedule: StoredSchedule, instant: Instant, news: ScheduleNews[]) {
    this.#context = context
    this.#schedule = schedule
    this.#instant = instant
    this.#news = news
    this.#clockUs = clockOf(schedule, instant)
  }

  run(): void {
    const schedule = this.#schedule
    const { overlap } = schedule.spec
    const { dues, missed } = this.#dues(schedule.nextUs ?? this.#clockUs)
    const heldUpToUs = schedule.catchUpToUs
    let nextUs = firstFrom(schedule, this.#clockUs + 1)
    schedule.catchUpToUs = null
    for (const dueUs of dues) {
      // Late is late: what is fired after the end of the series would also start after it.
      if (upcoming(schedule, Math.max(dueUs, this.#clockUs), this.#instant) === null) break
      if (overlap === 'skip' && this.#lastIsLive()) {
        if (missed) {
          nextUs = dueUs
          schedule.catchUpToUs = dues.at(-1) ?? dueUs
          break
        }
        this.#skip(dueUs, 'overlap')
        continue
      }
      const resumeUs = this.#tooLateUs()
      if (resumeUs !== null) {
        this.#skip(dueUs, 'late')
        nextUs = firstFrom(schedule, Math.max(resumeUs, this.#clockUs + 1))
        break
      }
      this.#enqueue(dueUs)
    }
    if (heldUpToUs !== null && schedule.catchUpToUs === null) this.#skipWhatCameMeanwhile(heldUpToUs)
    schedule.nextUs = upcoming(schedule, nextUs, this.#instant)
    if (schedule.nextUs === null) this.#news.push({ kind: 'ended', schedule: schedule.spec.name, runs: schedule.runs })
    save(this.#context, schedule)
  }

  /** The due times that are to be fired now, and whether they are made up for because nobody was at work. */
  #dues(nextUs: number): { readonly dues: readonly number[]; readonly missed: boolean } {
    const { spec, catchUpToUs } = this.#schedule
    if (spec.onMissed === 'catchUp') {
      const dues = latestDuesUs(spec.recurrence, nextUs, catchUpToUs ?? this.#clockUs, CATCH_UP_AT_MOST)
      if (dues[0] !== nextUs) this.#skip(nextUs, 'missed')
      return { dues, missed: catchUpToUs !== null || dues.length > 1 || this.#isMissed(nextUs) }
    }
    const dues = latestDuesUs(spec.recurrence, nextUs, this.#clockUs, 1)
    const dueUs = dues[0] ?? nextUs
    const missed = this.#isMissed(dueUs)
    if (missed || dueUs !== nextUs) this.#skip(nextUs, 'missed')
    return { dues: missed ? [] : dues, missed: false }
  }

  /** What was to begin at once is never missed: it waited for somebody to come, as any job does. */
  #isMissed(dueUs: number): boolean {
    if (dueUs === this.#schedule.anchorUs) return false
    const { nowUs } = this.#instant
    return nowUs - (this.#clockUs - dueUs) + MISSED_AFTER_US < attendedSinceUs(this.#context, nowUs)
  }

  #lastIsLive(): boolean {
    const { lastJob } = this.#schedule
    if (lastJob === null) return false
    const live = `SELECT 1 FROM jobs WHERE id = ? AND state IN (${LIVE_STATES})`
    return this.#context.db.get(live, lastJob) !== undefined
  }

  /** Set: an occurrence cannot start in time, and when its limits would let it, on the schedule's clock. */
  #tooLateUs(): number | null {
    const { spec } = this.#schedule
    const { nowUs } = this.#instant
    const wallNowUs = wallOf(this.#schedule, this.#clockUs, this.#instant)
    const endUs = spec.untilMs === null ? NEVER_US : nowUs + spec.untilMs * 1000 - wallNowUs
    const resumeUs = startsTooLateUs(this.#context, spec.job, nowUs, endUs)
    return resumeUs === null ? null : resumeUs === NEVER_US ? this.#clockUs : this.#clockUs + resumeUs - nowUs
  }

  #enqueue(dueUs: number): void {
    const { spec } = this.#schedule
    const id = this.#context.newId()
    const wallUs = wallOf(this.#schedule, dueUs, this.#instant)
    const occurrence = { schedule: spec.name, dueMs: wallUs / 1000 }
    // The end is exclusive, an expiry is not.
    const expiresAtMs = spec.untilMs === null ? null : spec.untilMs - 0.001
    enqueue(this.#context, [{ ...spec.job, id, runAtMs: null, expiresAtMs, unique: null, occurrence }], this.#instant)
    this.#schedule.runs++
    this.#schedule.lastDueUs = wallUs
    this.#schedule.lastJob = id
    this.#news.push({ kind: 'fired', occurrence, id, task: spec.job.task, queue: spec.job.queue })
  }

  /** What came due while missed occurrences waited for each other met one that had not ended; told once for all of it. */
  #skipWhatCameMeanwhile(heldUpToUs: number): void {
    const dueUs = upcoming(this.#schedule, firstFrom(this.#schedule, heldUpToUs + 1), this.#instant)
    if (dueUs !== null && dueUs <= this.#clockUs) this.#skip(dueUs, 'overlap')
  }

  #skip(dueUs: number, reason: SkipReason): void {
    const { spec } = this.#schedule
    const dueMs = wallOf(this.#schedule, dueUs, this.#instant) / 1000
    this.#news.push({ kind: 'skipped', occurrence: { schedule: spec.name, dueMs }, reason })
  }
}
