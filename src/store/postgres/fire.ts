import { latestDuesUs } from '../../jobs/recurrence.ts'
import type { ScheduleNews, SkipReason } from '../../jobs/schedule.ts'
import { inTransaction, type Statements } from '../../database/postgres.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import { clockOf, firstFrom, type Instant, type StoredSchedule, upcoming, wallOf } from '../shared/series.ts'
import type { Timelines } from '../shared/timelines.ts'
import { type Context, readClock } from './context.ts'
import { enqueue } from './enqueue.ts'
import { currentLimits } from './limit-timelines.ts'
import { findAll, isReadable, lockSchedules, save } from './schedule.ts'
import { startsTooLateUs } from './skip.ts'
import { LIVE_STATES } from '../shared/state.ts'
import type { Look } from './read-set.ts'
import { attendedSinceUs } from './workers.ts'

/** A schedule whose missed occurrences wait no longer. */
const HELD = `catch_up_to IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sluice.jobs j WHERE j.id = last_job AND j.state IN (${LIVE_STATES})) LIMIT 1`
const DUE = 'catch_up_to IS NULL AND next_at IS NOT NULL AND wall = $1 AND next_at <= $2 ORDER BY next_at LIMIT $3'
/** Missed occurrences that are caught up with, at most; the older ones are skipped. */
const CATCH_UP_AT_MOST = 1000
/** Whoever begins to work this soon after a due time was there: a restart takes a moment. */
const MISSED_AFTER_US = 1_000_000

/**
 * Makes jobs of the occurrences that are due, and moves their schedules on; what is beyond `limit` stays due.
 * Whoever claims first does it, for all processes: one at a time may change schedules.
 */
export async function fire(context: Context, db: Statements, limit: number): Promise<ScheduleNews[]> {
  return inTransaction(db, async () => {
    await lockSchedules(db)
    const instant = await readClock(context, db)
    const limits = await currentLimits(context, db)
    const news: ScheduleNews[] = []
    const due = [
      ...(await findAll(db, HELD)),
      ...(await findAll(db, DUE, false, instant.nowUs, limit)),
      ...(await findAll(db, DUE, true, instant.wallUs, limit)),
    ].filter((schedule) => isReadable(context, schedule))
    for (const schedule of due)
      if (news.length < limit) await new Firing({ context, db, limits, schedule, instant, news }).run()
    return news
  })
}

/** When the next occurrence is due, on the store's clock. */
export function nextFireUs({
  fire: [storeUs, onWallUs, released],
  now,
  wall,
}: Pick<Look, 'fire' | 'now' | 'wall'>): number {
  if (released !== null) return now
  return Math.min(storeUs ?? NEVER_US, onWallUs === null ? NEVER_US : now + Math.max(0, onWallUs - wall))
}

interface FiringOptions {
  readonly context: Context
  readonly db: Statements
  readonly limits: Timelines
  readonly schedule: StoredSchedule
  readonly instant: Instant
  readonly news: ScheduleNews[]
}

/** One schedule whose time has come. */
class Firing {
  readonly #context: Context
  readonly #db: Statements
  readonly #limits: Timelines
  readonly #schedule: StoredSchedule
  readonly #instant: Instant
  readonly #news: ScheduleNews[]
  readonly #clockUs: number

  constructor({ context, db, limits, schedule, instant, news }: FiringOptions) {
    this.#context = context
    this.#db = db
    this.#limits = limits
    this.#schedule = schedule
    this.#instant = instant
    this.#news = news
    this.#clockUs = clockOf(schedule, instant)
  }

  async run(): Promise<void> {
    const schedule = this.#schedule
    const { overlap } = schedule.spec
    const { dues, missed } = await this.#dues(schedule.nextUs ?? this.#clockUs)
    const heldUpToUs = schedule.catchUpToUs
    let nextUs = firstFrom(schedule, this.#clockUs + 1)
    schedule.catchUpToUs = null
    for (const dueUs of dues) {
      // Late is late: what is fired after the end of the series would also start after it.
      if (upcoming(schedule, Math.max(dueUs, this.#clockUs), this.#instant) === null) break
      if (overlap === 'skip' && (await this.#lastIsLive())) {
        if (missed) {
          nextUs = dueUs
          schedule.catchUpToUs = dues.at(-1) ?? dueUs
          break
        }
        this.#skip(dueUs, 'overlap')
        continue
      }
      const resumeUs = await this.#tooLateUs()
      if (resumeUs !== null) {
        this.#skip(dueUs, 'late')
        nextUs = firstFrom(schedule, Math.max(resumeUs, this.#clockUs + 1))
        break
      }
      await this.#enqueue(dueUs)
    }
    if (heldUpToUs !== null && schedule.catchUpToUs === null) this.#skipWhatCameMeanwhile(heldUpToUs)
    schedule.nextUs = upcoming(schedule, nextUs, this.#instant)
    if (schedule.nextUs === null) this.#news.push({ kind: 'ended', schedule: schedule.spec.name, runs: schedule.runs })
    await save(this.#db, schedule)
  }

  /** The due times that are to be fired now, and whether they are made up for because nobody was at work. */
  async #dues(nextUs: number): Promise<{ readonly dues: readonly number[]; readonly missed: boolean }> {
    const { spec, catchUpToUs } = this.#schedule
    if (spec.onMissed === 'catchUp') {
      const dues = latestDuesUs(spec.recurrence, nextUs, catchUpToUs ?? this.#clockUs, CATCH_UP_AT_MOST)
      if (dues[0] !== nextUs) this.#skip(nextUs, 'missed')
      return { dues, missed: catchUpToUs !== null || dues.length > 1 || (await this.#isMissed(nextUs)) }
    }
    const dues = latestDuesUs(spec.recurrence, nextUs, this.#clockUs, 1)
    const dueUs = dues[0] ?? nextUs
    const missed = await this.#isMissed(dueUs)
    if (missed || dueUs !== nextUs) this.#skip(nextUs, 'missed')
    return { dues: missed ? [] : dues, missed: false }
  }

  /** What was to begin at once is never missed: it waited for somebody to come, as any job does. */
  async #isMissed(dueUs: number): Promise<boolean> {
    if (dueUs === this.#schedule.anchorUs) return false
    const { nowUs } = this.#instant
    return nowUs - (this.#clockUs - dueUs) + MISSED_AFTER_US < (await attendedSinceUs(this.#db, nowUs))
  }

  async #lastIsLive(): Promise<boolean> {
    const { lastJob } = this.#schedule
    if (lastJob === null) return false
    const live = `SELECT 1 FROM sluice.jobs WHERE id = $1 AND state IN (${LIVE_STATES})`
    return (await this.#db.get(live, lastJob)) !== undefined
  }

  /** Set: an occurrence cannot start in time, and when its limits would let it, on the schedule's clock. */
  async #tooLateUs(): Promise<number | null> {
    const { spec } = this.#schedule
    const { nowUs } = this.#instant
    const wallNowUs = wallOf(this.#schedule, this.#clockUs, this.#instant)
    const endUs = spec.untilMs === null ? NEVER_US : nowUs + spec.untilMs * 1000 - wallNowUs
    const resumeUs = await startsTooLateUs(this.#db, this.#limits, spec.job, this.#instant, endUs)
    return resumeUs === null ? null : resumeUs === NEVER_US ? this.#clockUs : this.#clockUs + resumeUs - nowUs
  }

  async #enqueue(dueUs: number): Promise<void> {
    const { spec } = this.#schedule
    const id = this.#context.newId()
    const wallUs = wallOf(this.#schedule, dueUs, this.#instant)
    const occurrence = { schedule: spec.name, dueMs: wallUs / 1000 }
    // The end is exclusive, an expiry is not.
    const expiresAtMs = spec.untilMs === null ? null : spec.untilMs - 0.001
    await enqueue(this.#context, this.#db, [{ ...spec.job, id, runAtMs: null, expiresAtMs, unique: null, occurrence }])
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
