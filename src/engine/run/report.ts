import { UNREADABLE_WORDS, waitInWords } from '../../store/shared/rejection.ts'
import type { Clock } from '../../base/clock.ts'
import { type ErrorCode, SluiceError } from '../../base/errors.ts'
import { fromJsonText } from '../../base/json-value.ts'
import type { Logger } from '../../base/logger.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { Settlement, SettleResult } from '../../jobs/settlement.ts'
import { RateLimitRejected } from '../../jobs/handler-errors.ts'
import type { ScheduleNews } from '../../jobs/schedule.ts'
import { validate } from '../../jobs/schema.ts'
import type { SetAside } from '../../store/contract/set-aside.ts'
import type { Claim, Recovered, Rejected, Store } from '../../store/contract/store.ts'
import type { Closed } from '../../store/contract/waits.ts'
import type { UnresolvedJob, UnresolvedKind } from '../../store/contract/unresolved.ts'
import type { Events } from '../events/events.ts'
import { resultsTooLarge, reportFlow, reportParked } from '../events/flow-news.ts'
import type { LimitRegistry } from '../define/limit-registry.ts'
import type { ServedQueues } from '../define/served-queues.ts'
import type { Outcome } from './settle.ts'
import { logged, loggedRun } from './job-logger.ts'
import type { Results } from './results.ts'
import type { TaskDefinition } from '../define/task.ts'
import type { Figures } from '../events/figures.ts'
import { limitsOf } from '../events/wait-histogram.ts'

type Counted = Extract<SettleResult, { kind: 'settled' }>

/** The parts of a reporter. */
export interface ReporterOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly events: Events
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  readonly figures: Figures
  readonly store: Store
  /** The limits that this engine defines. */
  readonly limits: LimitRegistry
  readonly results: Results
  readonly servedQueues: ServedQueues
  /** Receives jobs with unresolved limits. */
  readonly unresolved: (kinds: readonly UnresolvedKind[]) => void
}

/** Reports writes: events for all listeners, callbacks for the task. It reports nothing before it is durable. */
export class Reporter {
  readonly #options: ReporterOptions

  constructor(options: ReporterOptions) {
    this.#options = options
  }

  /** Reports the start of a run in this process, which will report its end. */
  begun(job: GrantedJob): void {
    this.#options.results.running(job.id)
    this.started(job)
  }

  /** A run of this process is settled, or was abandoned: then its job may have ended elsewhere. */
  left(job: GrantedJob, isSettled: boolean): void {
    this.#options.results.left(job.id)
    if (!isSettled) this.#ended(job.id)
  }

  started(job: GrantedJob): void {
    const { events, figures } = this.#options
    figures.start(job)
    const onStarted = this.#options.tasks.get(job.task)?.onStarted
    if (onStarted)
      this.#withInput(job, 'onStarted', (input) =>
        onStarted({ id: job.id, input: input as never, attempt: job.attempt }),
      )
    if (!events.heard('job.started')) return
    const ageMs = (job.startedUs - job.createdUs) / 1000
    const waitedMs = Math.max(0, job.startedUs - job.availableUs) / 1000
    events.emit('job.started', { ...about(job), ageMs, waitedMs, waitedFor: job.waitedFor, limits: limitsOf(job) })
  }

  /** Reports a settled run, or a settlement refused because its lease had ended. */
  settled(job: GrantedJob, task: TaskDefinition | null, outcome: Outcome, settled: SettleResult, input: unknown): void {
    if (settled.kind === 'lost') return this.#lost(job)
    this.#settled(job, task, outcome, settled, input)
    if (settled.flow) this.flow(settled.flow)
  }

  #settled(job: GrantedJob, task: TaskDefinition | null, outcome: Outcome, settled: Counted, input: unknown): void {
    const { clock, events, logger } = this.#options
    const { state } = settled
    const { error, settlement } = outcome
    if (state === 'completed' || error) this.#count(job, Boolean(error))
    if (settlement.kind === 'next') reportParked(job, settlement.move.then, state, events, (us) => this.#wallOf(us))
    if (state === 'completed') {
      if (events.heard('job.completed')) events.emit('job.completed', about(job))
      const text = resultIn(settlement)
      this.#call(
        task?.onCompleted &&
          (() =>
            task.onCompleted?.(text === null ? undefined : JSON.parse(text), { id: job.id, input: input as never })),
        job,
        'onCompleted',
      )
      return this.#options.results.completed(job.id, text)
    }
    if (settlement.kind === 'snooze' || settlement.kind === 'push-back')
      logger.debug({ ...loggedRun(job), by: settlement.kind, state }, 'a run was deferred')
    if (settlement.kind === 'snooze' && state === 'scheduled') {
      if (!events.heard('job.snoozed')) return
      return events.emit('job.snoozed', { ...about(job), until: this.#afterUs(settlement.delayUs, settled.atUs) })
    }
    if (settlement.kind === 'push-back') {
      const { limit, key, closedForUs } = settlement
      if (limit !== null && settled.adjusted)
        events.emit('rate_limit.dynamic_adjusted', {
          limit,
          key,
          until: new Date(clock.now() + closedForUs / 1000),
          remaining: null,
        })
      return
    }
    if (error) events.emit('job.failed', { ...about(job), error })
    if (state === 'cancelled') {
      events.emit('job.cancelled', about(job))
      return this.#ended(job.id)
    }
    // The store has refused what its flow wanted.
    if (!error && state === 'discarded') return void this.#refused(job)
    if (!error) return
    if (settlement.kind === 'retry') {
      const delayMs = settlement.delayUs / 1000
      const { step } = outcome
      logger.warn({ ...loggedRun(job, step), err: error, delayMs }, 'a run failed, and its job is retried')
      events.emit('job.retrying', { ...about(job), error, delayMs })
      if (step)
        events.emit('step.retrying', { id: job.flow?.id ?? job.id, workflow: job.task, ...step, error, delayMs })
      this.#call(
        task?.onRetry &&
          (() => task.onRetry?.(error, { id: job.id, input: input as never, attempt: job.attempt, delayMs })),
        job,
        'onRetry',
      )
      return
    }
    this.#discarded(job, error, { fields: loggedRun(job, outcome.step) })
    this.#call(task?.onError && (() => task.onError?.(error, { id: job.id, input: input as never })), job, 'onError')
    this.#ended(job.id)
  }

  /** Reports the end of a job whose move the store has refused, with the error that the store wrote. */
  async #refused(job: GrantedJob): Promise<void> {
    const { store } = this.#options
    const { error = null } = (await store.get(job.id).catch(() => null)) ?? {}
    const { code = 'flow.invalid', message = `The store refused a move of the job ${job.id}.` } = error ?? {}
    this.#discarded(job, new SluiceError(code as ErrorCode, message), { fields: loggedRun(job) })
    this.#ended(job.id)
  }

  #count(job: GrantedJob, isFailed: boolean): void {
    const { figures, store } = this.#options
    figures.end(job, isFailed, Math.max(0, store.nowUs() - job.startedUs) / 1000)
  }

  #discarded(
    job: Parameters<typeof about>[0],
    error: Error,
    { message = 'a job was discarded', fields = logged(job) }: { message?: string | undefined; fields?: object } = {},
  ): void {
    const { events, figures, logger } = this.#options
    figures.discard(job)
    logger.error({ ...fields, err: error }, message)
    events.emit('job.discarded', { ...about(job), error })
  }

  #lost(job: GrantedJob): void {
    const { logger, events } = this.#options
    logger.warn(loggedRun(job), 'the lease of this run ended before it settled, so its result was refused')
    events.emit('job.lease_lost', about(job))
    // Another process may have ended the job meanwhile.
    this.#ended(job.id)
  }

  /** Reports the effects of a claim beside started jobs. */
  claimed(claim: Claim): void {
    const { events, figures, logger, servedQueues } = this.#options
    for (const bucket of [...claim.closed, ...claim.sustained, ...claim.released])
      figures.denied(bucket, bucket.deferred)
    for (const { nextAtUs, defined, refused, waiting: waitingJobs, ...closed } of claim.closed) {
      const { limit, key, queue, wanted: wantedUnits } = closed
      logger.debug({ limit, key, queue, waiting: waitingJobs }, 'jobs wait for a budget')
      if (!defined) events.emit('rate_limit.unknown', { limit, key, queue, ...named(refused) })
      else
        events.emit('rate_limit.exceeded', {
          ...closed,
          wantedUnits,
          waitingJobs,
          nextAt: nextAtUs === null ? null : this.#wallOf(nextAtUs),
        })
    }
    for (const { id, task, shadowed = [] } of claim.jobs)
      for (const { delayUs: us, ...told } of shadowed)
        events.emit('rate_limit.shadow', { ...told, id, task, delayMs: us === null ? null : us / 1000 })
    for (const { limit, key, deferred } of claim.sustained)
      if (deferred > 0) logger.debug({ limit, key, deferred }, 'jobs still wait for a budget')
    for (const { nextAtUs: us, atUs, ...bucket } of claim.sustained)
      this.#at(atUs, () =>
        events.emit('rate_limit.throttled', { ...bucket, nextAt: us === null ? null : this.#wallOf(us) }),
      )
    for (const { atUs, ...bucket } of claim.released) this.#at(atUs, () => events.emit('rate_limit.released', bucket))
    for (const news of claim.schedules) this.#scheduled(news)
    for (const row of claim.aside ?? []) this.#setAside(row)
    for (const job of claim.rejected) this.#rejected(job)
    for (const news of claim.flows) this.flow(news)
    if (claim.unresolved?.length) this.#options.unresolved(claim.unresolved)
    if (claim.unknown?.length) servedQueues.unknown(claim.unknown)
  }

  /** Reports a job that was cancelled before it began. */
  cancelled(job: GrantedJob, flow?: FlowNews): void {
    this.#options.events.emit('job.cancelled', about(job))
    this.#ended(job.id)
    if (flow) this.flow(flow)
  }

  /** Reports a job that was discarded because its limits could not be resolved. */
  unresolvable(job: UnresolvedJob, error: Error): void {
    this.#discarded(job, error)
    this.#onError(job, error)
    this.#ended(job.id)
  }

  /** Reports a flow that the end of a job has changed. */
  flow(news: FlowNews): void {
    reportFlow(news, this.#options.events, (id) => this.#ended(id))
    for (const job of news.discarded) this.#onError(job, resultsTooLarge(job.id))
  }

  #scheduled(news: ScheduleNews): void {
    const { events } = this.#options
    if (news.kind === 'ended') return events.emit('schedule.ended', { schedule: news.schedule, runs: news.runs })
    const { schedule, dueMs } = news.occurrence
    const dueAt = new Date(dueMs)
    if (news.kind === 'skipped') return events.emit('schedule.skipped', { schedule, dueAt, reason: news.reason })
    const { id, task, queue } = news
    events.emit('schedule.fired', { schedule, dueAt, id, task })
    events.emit('job.enqueued', { id, task, queue })
  }

  /** Reports jobs recovered from dead workers or expired leases. */
  recovered(jobs: readonly Recovered[]): void {
    const { events, logger } = this.#options
    for (const job of jobs) {
      const { state, step } = job
      const fields = { ...logged(job), ...(step !== null && { step }) }
      logger.warn({ ...fields, state }, 'a run was lost with its worker or its lease')
      events.emit('job.recovered', { ...about(job), state })
      if (state === 'available') continue
      const error = new SluiceError(
        'lease.lost',
        `The worker of job ${job.id} died or stopped extending its lease${step === null ? '' : ` in the step ${step}`}, and this was its last attempt.`,
      )
      if (state === 'discarded') {
        this.#discarded(job, error, { fields })
        this.#onError(job, error)
      }
      this.#ended(job.id)
      if (job.flow) this.flow(job.flow)
    }
  }

  /** Reports unreadable rows that were set aside, so that other work continues. */
  #setAside({ kind, name, bucket }: SetAside): void {
    const { clock, events, logger } = this.#options
    logger.error({ kind, name }, `The store has an unreadable row (${kind} ${name}): ${ASIDE[kind]}.`)
    if (bucket) events.emit('rate_limit.dynamic_adjusted', { ...bucket, until: new Date(clock.now()), remaining: 0 })
  }

  #rejected(job: Rejected): void {
    const { events } = this.#options
    if (job.occurrence) {
      this.#scheduled({ kind: 'skipped', occurrence: job.occurrence, reason: 'late' })
      events.emit('job.cancelled', about(job))
      return this.#ended(job.id)
    }
    const expectedStart = job.expectedStartUs === null ? null : this.#wallOf(job.expectedStartUs)
    const error =
      job.reason === 'unreadable'
        ? new SluiceError('job.unreadable', `The job ${job.id} of task ${job.task}: ${UNREADABLE_WORDS}`)
        : job.reason === 'expired'
          ? new SluiceError(
              'job.expired',
              `The job ${job.id} of task ${job.task} had not started when it expired${waitInWords(job)}.`,
            )
          : new RateLimitRejected(job.limit, job.key, expectedStart, this.#options.limits.policy(job.limit))
    if (job.reason === 'dropped' || job.reason === 'late')
      events.emit('rate_limit.dropped', { limit: job.limit, key: job.key, id: job.id, task: job.task, expectedStart })
    this.#discarded(job, error, job.reason === 'unreadable' ? { message: error.message } : {})
    this.#onError(job, error)
    this.#ended(job.id)
  }

  /** For a job that ended without a run: its input comes from the store. */
  #onError(job: { readonly id: string; readonly task: string; readonly input: string }, error: Error): void {
    const onError = this.#options.tasks.get(job.task)?.onError
    if (onError) this.#withInput(job, 'onError', (input) => onError(error, { id: job.id, input: input as never }))
  }

  /**
   * Calls back with the schema's output. A value that no longer matches is omitted, as after a run that found it so.
   */
  #withInput(
    job: { readonly id: string; readonly task: string; readonly input: string },
    name: string,
    callback: (input: unknown) => unknown,
  ): void {
    const schema = this.#options.tasks.get(job.task)?.schema
    this.#call(
      async () => {
        const raw: unknown = fromJsonText(job.input, undefined)
        const what = `the stored input of task ${job.task}`
        await callback(schema ? await onlyValid(async () => validate(schema as never, raw, what)) : raw)
      },
      job,
      name,
    )
  }

  /** Reports at an instant: starts that were granted ahead have not begun before. */
  #at(atUs: number, report: () => void): void {
    const { clock, store } = this.#options
    const leftUs = atUs - store.nowUs()
    if (leftUs <= 0) report()
    else clock.setTimer(report, leftUs / 1000).unref?.()
  }

  #ended(id: string): void {
    this.#options.results.settled(id)
  }

  /** The end of a time that began at an instant of the store; absent: now. */
  #afterUs(delayUs: number, sinceUs = this.#options.store.nowUs()): Date {
    return this.#wallOf(sinceUs + delayUs)
  }

  #wallOf(storeUs: number): Date {
    const { clock, store } = this.#options
    return new Date(clock.now() + (storeUs - store.nowUs()) / 1000)
  }

  /** A callback that throws changes nothing: the job's state is already written. */
  #call(callback: (() => unknown) | undefined, job: { readonly id: string }, name: string): void {
    if (!callback) return
    const failed = (error: unknown): void =>
      this.#options.logger.error({ err: error, job: job.id }, `${name} threw; the job's state is not affected`)
    try {
      Promise.resolve(callback()).catch(failed)
    } catch (error) {
      failed(error)
    }
  }
}

/** The result that a settlement writes, as JSON text. */
function resultIn(settlement: Settlement): string | null {
  if (settlement.kind === 'complete') return settlement.result
  return settlement.kind === 'next' && settlement.move.then.kind === 'end' ? settlement.move.then.result : null
}

/** The consequence of an unreadable row. */
const ASIDE: Readonly<Record<SetAside['kind'], string>> = {
  bucket: 'the budget starts again, empty',
  limit: 'it counts as undefined, and its jobs wait until it is defined again',
  override: 'nothing starts under it until it is cleared or replaced',
  queue:
    'its limits are those that this process declares; without any, its jobs wait until an engine that lists limits starts',
  bounds: 'the queue is no longer bounded',
  schedule: 'it does not fire until it is scheduled again',
  lane: 'its waiting jobs were discarded if their limits could not be found again',
  worker: 'its queues are unknown',
  ageing: 'priorities do not age until an engine with ageing starts',
  arrival: 'the note was dropped, and its jobs are checked one by one',
}

/** The members that every job event has. */
export function about(job: {
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly attempt: number
}): { id: string; task: string; queue: string; attempt: number } {
  return { id: job.id, task: job.task, queue: job.queue, attempt: job.attempt }
}

/** A job whose row was removed meanwhile has no name. */
function named(refused: Closed['refused']): { task: string; flow?: string; step?: number } {
  const { task = '', flow } = refused ?? {}
  return flow ? { task, flow: flow.id, step: flow.node } : { task }
}

const onlyValid = (check: () => Promise<unknown>): Promise<unknown> => check().catch(() => undefined)
