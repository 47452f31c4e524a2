import { latestDuesUs } from '../../jobs/recurrence.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { ScheduleNews, SkipReason } from '../../jobs/schedule.ts'
import { type Bucket, deniedUntilUs, NEVER_US } from '../../policy/admission/lane.ts'
import { soonestUs } from '../../policy/admission/guaranteed.ts'
import { refusalBehaviour } from '../../policy/admission/refusal.ts'
import type { BucketUse } from '../contract/store.ts'
import { findBucket } from './buckets.ts'
import { ask, type Reading } from './reading.ts'
import { atEndOfOverride, UNUSED } from './stored-bucket.ts'
import { isReadable, looksAgainUs, saveSchedules, schedulesWhere } from './schedule.ts'
import { clockOf, firstFrom, type Instant, type StoredSchedule, upcoming, wallOf } from '../../jobs/series.ts'
import { type Access, get } from './sql.ts'
import { LIVE_STATES } from './state.ts'
import { attendedSinceUs } from './workers.ts'

/** The most missed occurrences to catch up with; the store skips the older ones. */
const CATCH_UP_AT_MOST = 1000
/** A worker that joins this soon after a due time counts as present then, since a restart takes a moment. */
const MISSED_AFTER_US = 1_000_000

const DUE = 'catch_up_to IS NULL AND next_at IS NOT NULL AND wall = $1 AND next_at <= $2 ORDER BY next_at LIMIT $3'

/** A held one is released when its last job has ended. One look for each: as an EXISTS it would read all live jobs. */
const RELEASED = `catch_up_to IS NOT NULL AND (SELECT 1 FROM sluice.jobs j WHERE j.id = last_job AND j.state IN (${LIVE_STATES}) LIMIT 1) IS NULL LIMIT $1`

const LIVE = `SELECT 1 FROM sluice.jobs WHERE id = $1::uuid AND state IN (${LIVE_STATES})`

/** The queries that firing needs of a store, within one transaction. */
export interface FireAccess extends Access {
  readonly instant: Instant
  newId(): string
  enqueue(jobs: readonly NewJob[]): unknown
}

/** The next due time of all schedules on the store's clock, from the next due times on both clocks. */
export function nextFireUs(
  storeUs: number | null,
  onWallUs: number | null,
  released: string | null,
  { nowUs, wallUs }: Instant,
): number {
  if (released !== null) return nowUs
  return Math.min(storeUs ?? NEVER_US, onWallUs === null ? NEVER_US : nowUs + Math.max(0, onWallUs - wallUs))
}

/**
 * Makes jobs of due occurrences, and advances their schedules; those beyond `limit` stay due. The first claim does it
 * for all processes.
 */
export function* fire(access: FireAccess, limit: number): Reading<readonly ScheduleNews[]> {
  const { nowUs, wallUs } = access.instant
  const due: StoredSchedule[] = [...(yield* schedulesWhere(access, RELEASED, limit))]
  due.push(...inOrder(yield* schedulesWhere(access, DUE, false, nowUs, limit)))
  due.push(...inOrder(yield* schedulesWhere(access, DUE, true, wallUs, limit)))
  const round: Round = { news: [], jobs: [], sinceUs: null }
  const fired: StoredSchedule[] = []
  for (const schedule of due) {
    if (round.news.length >= limit || !isReadable(access.unreadable, schedule)) continue
    yield* new Firing(access, schedule, round).run()
    fired.push(schedule)
  }
  // Other changes of schedules wait for this transaction, so it writes all of them together.
  if (round.jobs.length > 0) yield* ask(() => access.enqueue(round.jobs))
  yield* saveSchedules(access, fired)
  return round.news
}

/** By due time and name: a server answers equal times as their rows lie. To sort there would read all that are due. */
function inOrder(due: readonly StoredSchedule[]): StoredSchedule[] {
  return due.toSorted((a, b) => (a.nextUs ?? 0) - (b.nextUs ?? 0) || (a.spec.name < b.spec.name ? -1 : 1))
}

/** All schedules that are due at once. */
interface Round {
  readonly news: ScheduleNews[]
  /** The jobs to store at its end. */
  readonly jobs: NewJob[]
  /** Since when a worker has been live, on the store's clock; null: no schedule has asked for it yet. */
  sinceUs: number | null
}

/** One due schedule. */
class Firing {
  readonly #access: FireAccess
  readonly #schedule: StoredSchedule
  readonly #instant: Instant
  readonly #round: Round
  readonly #clockUs: number
  /** It has made a job in this round. */
  #fired = false

  constructor(access: FireAccess, schedule: StoredSchedule, round: Round) {
    this.#access = access
    this.#schedule = schedule
    this.#instant = access.instant
    this.#round = round
    this.#clockUs = clockOf(schedule, access.instant)
  }

  *run(): Reading<void> {
    const schedule = this.#schedule
    const { overlap } = schedule.spec
    const { dues, missed } = yield* this.#dues(schedule.nextUs ?? this.#clockUs)
    const heldUpToUs = schedule.catchUpToUs
    let nextUs = firstFrom(schedule, this.#clockUs + 1)
    schedule.catchUpToUs = null
    for (const dueUs of dues) {
      // An occurrence fired after the end of the series would also start after it.
      if (upcoming(schedule, Math.max(dueUs, this.#clockUs), this.#instant) === null) break
      if (overlap === 'skip' && (yield* this.#isLive())) {
        if (missed) {
          nextUs = dueUs
          schedule.catchUpToUs = dues.at(-1) ?? dueUs
          break
        }
        this.#skip(dueUs, 'overlap')
        continue
      }
      const resumeUs = yield* this.#tooLateUs()
      if (resumeUs !== null) {
        this.#skip(dueUs, 'late')
        nextUs = firstFrom(schedule, Math.max(resumeUs, this.#clockUs + 1))
        break
      }
      this.#enqueue(dueUs)
    }
    if (heldUpToUs !== null && schedule.catchUpToUs === null) this.#skipWhatCameMeanwhile(heldUpToUs)
    schedule.nextUs = upcoming(schedule, nextUs, this.#instant)
    if (schedule.nextUs === null)
      this.#round.news.push({ kind: 'ended', schedule: schedule.spec.name, runs: schedule.runs })
  }

  /** Whether its last job has not ended yet. */
  *#isLive(): Reading<boolean> {
    const { lastJob } = this.#schedule
    if (this.#fired || lastJob === null) return this.#fired
    return (yield* get(this.#access.db, LIVE, lastJob)) !== undefined
  }

  /** The due times to fire now, and whether they were missed because no worker was live. */
  *#dues(nextUs: number): Reading<{ readonly dues: readonly number[]; readonly missed: boolean }> {
    const { spec, catchUpToUs } = this.#schedule
    if (spec.onMissed === 'catchUp') {
      const dues = latestDuesUs(spec.recurrence, nextUs, catchUpToUs ?? this.#clockUs, CATCH_UP_AT_MOST)
      if (dues[0] !== nextUs) this.#skip(nextUs, 'missed')
      return { dues, missed: catchUpToUs !== null || dues.length > 1 || (yield* this.#isMissed(nextUs)) }
    }
    const dues = latestDuesUs(spec.recurrence, nextUs, this.#clockUs, 1)
    const dueUs = dues[0] ?? nextUs
    const missed = yield* this.#isMissed(dueUs)
    if (missed || dueUs !== nextUs) this.#skip(nextUs, 'missed')
    return { dues: missed ? [] : dues, missed: false }
  }

  /** A start at once is never missed: it waits for a worker, as any job does. */
  *#isMissed(dueUs: number): Reading<boolean> {
    if (dueUs === this.#schedule.anchorUs) return false
    const { nowUs } = this.#instant
    const sinceUs = (this.#round.sinceUs ??= yield* attendedSinceUs(this.#access, nowUs))
    return nowUs - (this.#clockUs - dueUs) + MISSED_AFTER_US < sinceUs
  }

  /** Set: an occurrence cannot start in time. The value is its possible start on the schedule's clock. */
  *#tooLateUs(): Reading<number | null> {
    const { spec } = this.#schedule
    const { nowUs } = this.#instant
    const wallNowUs = wallOf(this.#schedule, this.#clockUs, this.#instant)
    const endUs = spec.untilMs === null ? NEVER_US : nowUs + spec.untilMs * 1000 - wallNowUs
    const resumeUs = yield* startsTooLateUs(this.#access, spec.job, endUs)
    if (resumeUs === null || resumeUs === NEVER_US) return resumeUs === null ? null : this.#clockUs
    return this.#clockUs + (yield* looksAgainUs(this.#access, resumeUs, nowUs)) - nowUs
  }

  #enqueue(dueUs: number): void {
    const { spec } = this.#schedule
    const id = this.#access.newId()
    const wallUs = wallOf(this.#schedule, dueUs, this.#instant)
    const occurrence = { schedule: spec.name, dueMs: wallUs / 1000 }
    // The end is exclusive, an expiry is not.
    const expiresAtMs = spec.untilMs === null ? null : spec.untilMs - 0.001
    this.#round.jobs.push({ ...spec.job, id, runAtMs: null, expiresAtMs, unique: null, occurrence })
    this.#fired = true
    this.#schedule.runs++
    this.#schedule.lastDueUs = wallUs
    this.#schedule.lastJob = id
    this.#round.news.push({ kind: 'fired', occurrence, id, task: spec.job.task, queue: spec.job.queue })
  }

  /**
   * Skips occurrences that became due while missed ones waited for each other and one had not ended; one event reports
   * them all.
   */
  #skipWhatCameMeanwhile(heldUpToUs: number): void {
    const dueUs = upcoming(this.#schedule, firstFrom(this.#schedule, heldUpToUs + 1), this.#instant)
    if (dueUs !== null && dueUs <= this.#clockUs) this.#skip(dueUs, 'overlap')
  }

  #skip(dueUs: number, reason: SkipReason): void {
    const { spec } = this.#schedule
    const dueMs = wallOf(this.#schedule, dueUs, this.#instant) / 1000
    this.#round.news.push({ kind: 'skipped', occurrence: { schedule: spec.name, dueMs }, reason })
  }
}

/**
 * Checks an occurrence's buckets before it is stored. Set: they drop it, or let it start only after its `maxWait` or
 * not before `endUs`. The value is its possible start, or NEVER_US if a permit has to return. Null: it may be in time,
 * as far as the buckets show.
 */
function* startsTooLateUs(
  access: FireAccess,
  { uses, priority }: { readonly uses: readonly BucketUse[]; readonly priority: number },
  endUs: number,
): Reading<number | null> {
  if (uses.length === 0) return null
  const { nowUs } = access.instant
  const buckets: Bucket[] = []
  const weights: number[] = []
  for (const { limit, key, weight } of uses) {
    const bucket = yield* findBucket(access, access.instant, limit, key)
    if (!bucket) continue
    buckets.push(bucket)
    weights.push(weight)
  }
  const weightIn = (_: Bucket, place: number): number => weights[place] ?? 1
  const refusing: Bucket[] = []
  let startUs = nowUs
  for (const [i, bucket] of buckets.entries()) {
    const deniedUs = deniedUntilUs(bucket, weights[i] ?? 1, nowUs, priority)
    // One that begins empty fills from its first job on, unless it is paused.
    const fills = bucket.id === UNUSED && bucket.changed && bucket.policy?.concurrency !== 0
    if (deniedUs === null || fills) continue
    const againUs = soonestUs(buckets, weightIn, bucket, deniedUs, nowUs)
    const ownUs = atEndOfOverride(againUs, bucket)
    if (ownUs <= nowUs) continue
    refusing.push(bucket)
    startUs = Math.max(startUs, ownUs)
  }
  const head = { seq: 0, priority, given: priority, weights: null, attempt: 0, sinceUs: nowUs, latestUs: null }
  const behaviour = refusalBehaviour(refusing, buckets, head, startUs)
  return behaviour === 'drop' || behaviour === 'late' || (startUs >= endUs && startUs !== NEVER_US) ? startUs : null
}
