import { SluiceError } from '../../base/errors.ts'
import { fromJsonText } from '../../base/json-value.ts'
import { checkText } from '../../base/options.ts'
import { isStorable } from '../../base/text.ts'
import type { Logger } from '../../base/logger.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { OnMissed, Overlap, ScheduleRecord } from '../../jobs/schedule.ts'
import type { Scheduled } from '../../store/contract/schedules.ts'
import type { Store } from '../../store/contract/store.ts'
import type { LimitRegistry } from '../define/limit-registry.ts'
import type { ServedQueues } from '../define/served-queues.ts'
import type { Wakeup } from '../events/wakeup.ts'
import { type ScheduleOptions, slowerLimit, toSchedule } from '../define/schedule.ts'

/** The state of a schedule. */
export type ScheduleState = 'active' | 'paused' | 'completed'

/** A registered schedule. */
export interface ScheduleView {
  readonly name: string
  readonly task: string
  readonly queue: string
  readonly input: unknown
  /** Null for a schedule by distance. */
  readonly cron: string | null
  readonly timezone: string | null
  /** ms; null for a cron. */
  readonly every: number | null
  readonly until: Date | null
  readonly maxRuns: number | null
  readonly overlap: Overlap
  readonly onMissed: OnMissed
  /** `completed`: the series has ended, by `until` or `maxRuns`. */
  readonly state: ScheduleState
  /** The next due time; null: the series is paused or has ended. */
  readonly nextAt: Date | null
  /** The due time of the last occurrence that became a job. */
  readonly lastAt: Date | null
  /** The id of that job. */
  readonly lastJob: string | null
  /** Occurrences that became jobs, without those skipped while they waited. */
  readonly runs: number
}

interface Hooks {
  readonly store: () => Promise<Store>
  readonly logger: Logger
  readonly limits: LimitRegistry
  readonly wakeup: Wakeup
  readonly servedQueues: ServedQueues
  readonly calls: { newId(): string }
}

/** Schedules: list, read, pause, resume, run now, remove. */
export class SchedulesApi {
  readonly #hooks: Hooks
  /** The inputs of schedules without a name. */
  readonly #unnamed = new Map<string, string>()
  readonly #warned = new Set<string>()

  constructor(hooks: Hooks) {
    this.#hooks = hooks
  }

  /** Every schedule of the store by name, ended ones included. */
  async list(): Promise<ScheduleView[]> {
    return (await (await this.#hooks.store()).schedules()).map(scheduleViewOf)
  }

  /** One schedule; null: none has that name. */
  async get(name: string): Promise<ScheduleView | null> {
    checkText(name, 'schedules.get: the name')
    return (await this.list()).find((each) => each.name === name) ?? null
  }

  /** Ends and deletes a schedule. An occurrence that waits or runs continues. False: no schedule has that name. */
  async remove(name: string): Promise<boolean> {
    checkText(name, 'schedules.remove: the name')
    this.#unnamed.delete(name)
    // A name that no store can hold has no schedule.
    const removed = isStorable(name) && (await (await this.#hooks.store()).unschedule(name))
    if (removed) this.#hooks.wakeup.notify('schedule')
    return removed
  }

  /**
   * Pauses a schedule: no occurrence becomes a job until `resume`, also after a restart that registers it again. Jobs
   * that wait or run continue. A series that has ended stays `completed`.
   * @returns the schedule; null: none has that name
   */
  pause(name: string): Promise<ScheduleView | null> {
    return this.#setPaused(name, true, 'schedules.pause: the name')
  }

  /**
   * Ends a pause. Occurrences that were due meanwhile are skipped; a schedule with `onMissed: 'catchUp'` runs the latest
   * 1,000 of them.
   * @returns the schedule; null: none has that name
   */
  resume(name: string): Promise<ScheduleView | null> {
    return this.#setPaused(name, false, 'schedules.resume: the name')
  }

  async #setPaused(name: string, paused: boolean, what: string): Promise<ScheduleView | null> {
    checkText(name, what)
    const found = isStorable(name) ? await (await this.#hooks.store()).pauseSchedule(name, paused) : null
    if (found) this.#hooks.wakeup.notify('schedule')
    return found && scheduleViewOf(found)
  }

  /**
   * Stores one job of a schedule now, paused or ended ones included. It counts as no run, and the due times stay. The
   * job needs the limits of the schedule's jobs.
   * @returns the id of the job; null: no schedule has that name
   */
  async run(name: string): Promise<string | null> {
    checkText(name, 'schedules.run: the name')
    const store = await this.#hooks.store()
    const found = (await store.schedules()).find((each) => each.name === name)
    if (!found) return null
    const id = this.#hooks.calls.newId()
    const job: NewJob = { ...found.job, id, runAtMs: null, expiresAtMs: null, unique: null }
    await store.enqueue([job])
    this.#hooks.servedQueues.enqueued([job])
    this.#hooks.wakeup.notify('work')
    return id
  }

  /** Registers a schedule of such jobs, for `sluice.schedule`. */
  async register(options: ScheduleOptions<never>, job: NewJob): Promise<Scheduled> {
    const named = toSchedule(options, job)
    if (options.name === undefined) this.#checkUnnamed(named.name, job.input)
    const store = await this.#hooks.store()
    if (await this.#hooks.limits.store(store)) this.#hooks.wakeup.notify('work')
    const registered = await store.schedule(named)
    this.#warnIfTooFast(registered.schedule)
    this.#hooks.servedQueues.enqueued([job])
    if (registered.kind !== 'unchanged') this.#hooks.wakeup.notify('schedule')
    return registered
  }

  /** Two unnamed schedules of one task would replace each other. */
  #checkUnnamed(name: string, input: string): void {
    const known = this.#unnamed.get(name)
    if (known !== undefined && known !== input)
      throw new SluiceError(
        'schedule.invalid',
        `Two schedules of the task ${name} have different inputs and no names, so one would replace the other. Name each of them.`,
      )
    this.#unnamed.set(name, input)
  }

  #warnIfTooFast(schedule: ScheduleRecord): void {
    if (schedule.nextDueMs === null) return
    const limit = slowerLimit(schedule, schedule.nextDueMs * 1000, (name) => this.#hooks.limits.policy(name))
    const { name, recurrence } = schedule
    if (limit === null || this.#warned.has(name)) return
    this.#warned.add(name)
    this.#hooks.logger.warn(
      { schedule: name, limit, recurrence },
      `The schedule ${name} is faster than its limit ${limit}: occurrences will run late, and those due meanwhile are skipped.`,
    )
  }
}

/** The view of a stored schedule. */
export function scheduleViewOf(record: ScheduleRecord): ScheduleView {
  const { name, recurrence, job, untilMs, maxRuns, overlap, onMissed, nextDueMs, lastDueMs, lastJob, runs, paused } =
    record
  const date = (ms: number | null): Date | null => (ms === null ? null : new Date(ms))
  return {
    name,
    task: job.task,
    queue: job.queue,
    input: fromJsonText(job.input, null),
    cron: recurrence.kind === 'cron' ? recurrence.cron : null,
    timezone: recurrence.kind === 'cron' ? recurrence.timezone : null,
    every: recurrence.kind === 'every' ? recurrence.everyUs / 1000 : null,
    until: date(untilMs),
    maxRuns,
    overlap,
    onMissed,
    state: paused ? 'paused' : nextDueMs === null ? 'completed' : 'active',
    nextAt: date(nextDueMs),
    lastAt: date(lastDueMs),
    lastJob,
    runs,
  }
}
