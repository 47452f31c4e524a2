import type { Clock } from '../../base/clock.ts'
import type { Logger } from '../../base/logger.ts'
import { persist } from '../../base/persist.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { Answer } from '../../jobs/header-source.ts'
import { isRefusal, type RateLimitDetails, readRateLimitHeaders } from '../../jobs/rate-limit-headers.ts'
import { isRateLimited } from '../../jobs/is-rate-limited.ts'
import { RateLimited } from '../../jobs/rate-limited.ts'
import { countsUnits } from '../../policy/limits/limit.ts'
import type { Calibration } from '../../policy/limits/limit.ts'
import { MAX_UNITS } from '../../policy/limits/normalise.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Events } from '../events/events.ts'
import type { Wakeup } from '../events/wakeup.ts'
import { type OutcomeContext, pushBackOf } from './settle.ts'
import type { HeldRuns } from './held-runs.ts'
import type { Changing } from '../../jobs/hold.ts'
import type { TaskDefinition } from '../define/task.ts'
import type { Trouble } from '../../base/trouble.ts'

/** The parts of feedback. */
export interface FeedbackOptions {
  /** The worker whose own budgets count, for limits of scope `worker`. */
  readonly worker: number
  readonly store: Store
  readonly clock: Clock
  readonly logger: Logger
  readonly trouble: Trouble
  readonly events: Events
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  readonly outcomes: OutcomeContext
  readonly held: HeldRuns
  readonly wakeup: Wakeup
  readonly changing: Changing
}

/** A correction that only delays starts is retried for this time. */
const REPEATED_FOR_MS = 120_000

/** The feedback of handlers on their limits: the real cost of a call, and the API's report of its budget. */
export class Feedback {
  readonly #options: FeedbackOptions
  /** The units that each run has corrected so far, by limit. A run gives back at most its charge. */
  readonly #corrected = new WeakMap<GrantedJob, Map<string, number>>()

  readonly #unheld = new Set<string>()

  constructor(options: FeedbackOptions) {
    this.#options = options
  }

  charge(job: GrantedJob, limit: string, units: number): void {
    const { clock, outcomes, logger, store, trouble, wakeup, worker } = this.#options
    const use = job.uses.find((each) => each.limit === limit)
    const policy = outcomes.limits.policy(limit)
    const fault = !use
      ? 'the job does not use that limit'
      : !(Number.isSafeInteger(units) && Math.abs(units) <= MAX_UNITS)
        ? `the units are not a whole number of at most ${MAX_UNITS}`
        : policy && !countsUnits(policy)
          ? 'a limit of spacing or of permits alone counts starts, not units'
          : this.#options.held.isRunning(job)
            ? null
            : 'the run is over'
    if (fault !== null || !use) return logger.warn({ job: job.id, limit, units }, `charge ignored: ${fault}`)
    const corrected = this.#corrected.get(job) ?? new Map<string, number>()
    this.#corrected.set(job, corrected)
    const before = corrected.get(limit) ?? 0
    const now = Math.max(units, -(use.weight + before))
    if (now === 0) return
    corrected.set(limit, before + now)
    // A retry after a lost answer may charge twice. Too large a charge delays starts; too small a one lets too many
    // start.
    persist(clock, now > 0 ? REPEATED_FOR_MS : 0, () => store.charge(limit, use.key, now, job.startedUs, worker)).then(
      () => wakeup.notify('work'),
      (error: unknown) => trouble.report('error', error, { job: job.id, limit }, 'a charge could not be corrected'),
    )
  }

  /** A refusal closes the bucket. The headers of any answer correct the buckets of limits with `calibrate`. */
  observe(job: GrantedJob, answer: Answer): void {
    const { clock, outcomes, tasks } = this.#options
    const task = tasks.get(job.task)
    const refused = isRefusal(answer)
    if (refused && task) {
      const { limit, key, closedForUs } = pushBackOf(
        outcomes,
        job,
        task,
        RateLimited.from(answer, { now: clock.now() }),
      )
      if (limit !== null) this.#close(job, limit, key, closedForUs)
    }
    this.#calibrate(job, (budget) => readRateLimitHeaders(answer.headers, clock.now(), budget), refused)
  }

  /** Reads the headers of a refusal that the handler threw, beside its retry time. */
  refused(job: GrantedJob, error: Error | null): void {
    if (!isRateLimited(error)) return
    if (error.limitName !== null) this.#warnUnheld(job, error.limitName)
    if (!error.headers) return
    const { headers } = error
    try {
      this.#calibrate(job, (budget) => readRateLimitHeaders(headers, this.#options.clock.now(), budget), true)
    } catch (cause) {
      // The headers are the handler's object, and a throwing getter must not keep the run from being settled.
      this.#options.logger.warn({ err: cause, job: job.id }, 'the headers of a refusal could not be read')
    }
  }

  /** Warns once for each task and limit, since a misspelt name would warn at every refusal. */
  #warnUnheld(job: GrantedJob, limit: string): void {
    const name = JSON.stringify([job.task, limit])
    if (this.#unheld.has(name) || job.uses.some((use) => use.limit === limit)) return
    this.#unheld.add(name)
    const closed = this.#options.outcomes.limits.policy(limit)
      ? 'its bucket was closed, and the job'
      : 'no bucket was closed, and the job'
    this.#options.logger.warn(
      { code: 'limit.unknown', job: job.id, task: job.task, limit },
      `limit.unknown: a RateLimited of task ${job.task} names the limit ${limit}, which the job does not use; ${closed} was rescheduled. Name a limit that the task lists.`,
    )
  }

  /** @param isRefusal an empty budget is then not news: the refusal names the retry time, perhaps a sooner one. */
  #calibrate(job: GrantedJob, read: (budget: string | null) => RateLimitDetails, isRefusal: boolean): void {
    const { events, outcomes, store, trouble, wakeup, worker } = this.#options
    for (const { limit, key } of job.uses) {
      const policy = outcomes.limits.policy(limit)
      if (!policy?.calibrate) continue
      const details = read(policy.calibrate.budget)
      const { remaining } = details
      if (remaining === undefined || (isRefusal && remaining === 0)) continue
      const left = Math.max(0, remaining - this.#unseen(job, limit, key))
      const resetInUs = this.#resetInUs(details, paceOf(policy).periodUs)
      const { direction, reset }: Calibration = policy.calibrate
      const report = { remaining: left, resetUs: store.nowUs() + resetInUs, direction, reset }
      store.calibrate(limit, key, report, worker).then(
        (news) => {
          if (!news) return undefined
          const until = new Date(this.#options.clock.now() + resetInUs / 1000)
          events.emit('rate_limit.dynamic_adjusted', { limit, key, until, remaining: left })
          return wakeup.notify('work')
        },
        (error: unknown) => trouble.report('error', error, { job: job.id, limit }, 'a budget could not be calibrated'),
      )
    }
  }

  /** Units of this process's runs that began after this one: the API may not have counted them when it answered. */
  #unseen(job: GrantedJob, limit: string, key: string): number {
    let units = 0
    for (const { job: other } of this.#options.held.calls.values()) {
      if (other.startedUs < job.startedUs || (other.startedUs === job.startedUs && other.seq <= job.seq)) continue
      for (const use of other.uses) if (use.limit === limit && use.key === key) units += use.weight
    }
    return units
  }

  /**
   * The reported reset, or one period if the API reports none; at most the longest penalty, since a header may hold any
   * value.
   */
  #resetInUs({ reset }: RateLimitDetails, periodUs: number): number {
    const { clock, outcomes } = this.#options
    const us =
      reset === undefined || reset.kind === 'absent'
        ? periodUs
        : reset.kind === 'delay'
          ? reset.us
          : Math.ceil((reset.epochMs - clock.now()) * 1000)
    return Math.min(us, outcomes.maxPenaltyUs)
  }

  #close(job: GrantedJob, limit: string, key: string, closedForUs: number): void {
    const { changing, clock, events, store, trouble, worker } = this.#options
    const until = new Date(clock.now() + closedForUs / 1000)
    const untilUs = store.nowUs() + closedForUs
    const close = (): Promise<boolean> =>
      persist(clock, REPEATED_FOR_MS, () => store.penalize(limit, key, untilUs, worker))
    changing((use) => use.limit === limit && use.key === key, close).then(
      (news) => news && events.emit('rate_limit.dynamic_adjusted', { limit, key, until, remaining: null }),
      (error: unknown) => trouble.report('error', error, { job: job.id, limit }, 'a refusal could not be stored'),
    )
  }
}
