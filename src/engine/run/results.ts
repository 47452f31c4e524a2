import type { Clock, Timer } from '../../base/clock.ts'
import { durationMs, type Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { brief, checkOptions } from '../../base/options.ts'
import { PassingMap } from '../../base/passing-map.ts'
import { errorFrom } from '../../jobs/stored-error.ts'
import type { JobRecord, NewJob } from '../../jobs/job.ts'
import { isFinal } from '../../jobs/job-state.ts'
import type { Enqueued, Store } from '../../store/contract/store.ts'
import type { Events } from '../events/events.ts'
import type { Job } from '../define/task.ts'

const AGAIN_AFTER_MS = 250
/** The most jobs of one question to the store. */
const ASKED_AT_ONCE = 1000
/** The rest after each full question, before others' ends lead to the next: many callers must not busy the store. */
const REST_MS = 20

interface Waiter {
  resolve(value: unknown): void
  reject(error: unknown): void
  /** The timer of its timeout. */
  timer: Timer | null
}

/** Lets callers wait for the end of jobs of any process. */
export class Results {
  readonly #store: () => Promise<Store>
  readonly #clock: Clock
  readonly #waiters = new Map<string, Set<Waiter>>()
  /** Jobs whose handlers run in this process: it reports their ends by itself. */
  readonly #running = new PassingMap<string, true>()
  /** Jobs that are read again in a moment. */
  readonly #again = new Set<string>()
  /** Callers that came since the last look, with their jobs. */
  readonly #fresh = new Map<Waiter, string>()
  /** The change that others have reported since the last look: ends of jobs, or anything. */
  #reported: 'ended' | 'any' | null = null
  #looking = false
  #rest: Timer | null = null
  #stopWatching: (() => void) | null = null

  constructor(store: () => Promise<Store>, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** The handle of a stored job. */
  handle(id: string, duplicate: boolean): Job<unknown> {
    return { id, duplicate, result: async (options = {}) => this.wait(id, options) }
  }

  /** The result of one call of a task. @throws {SluiceError} `unique.conflict` */
  enqueued(job: NewJob, answer: Enqueued, events: Events): Job<unknown> {
    if (answer.kind === 'conflict') throw uniqueConflict(job, answer.id)
    if (answer.kind === 'created' && events.heard('job.enqueued'))
      events.emit('job.enqueued', { id: job.id, task: job.task, queue: job.queue })
    return this.handle(answer.id, answer.kind !== 'created')
  }

  /** A run of a job has begun in this process. */
  running(id: string): void {
    this.#running.set(id, true)
  }

  /** That run is settled, or was abandoned. From now on its job may end in another process. */
  left(id: string): void {
    this.#running.delete(id)
  }

  /** A run has completed its job with this result, as JSON text. A completed job stays so, and needs no read. */
  completed(id: string, result: string | null): void {
    for (const waiter of this.#waiters.get(id) ?? []) if (this.#leave(id, waiter)) resolveWith(result, waiter)
  }

  /** A job has ended, or may have: answers its waiting callers, after a delay while the store is away. */
  settled(id: string): void {
    if (!this.#waiters.has(id)) return
    this.#answer(id).catch(() => {
      if (this.#again.has(id)) return
      this.#again.add(id)
      this.#clock.setTimer(() => {
        this.#again.delete(id)
        this.settled(id)
      }, AGAIN_AFTER_MS)
    })
  }

  /** Answers only callers from before the read: a job that was retried meanwhile has yet to end for later ones. */
  async #answer(id: string): Promise<void> {
    const waiters = [...(this.#waiters.get(id) ?? [])]
    if (waiters.length === 0) return
    const job = await (await this.#store()).get(id)
    if (job === null) {
      // Its run here may have deleted it, and then hands its result over once the store has answered.
      if (this.#running.has(id)) return
      const error = new SluiceError(
        'job.not_found',
        `The job ${brief(id)} is no longer stored. Its retention may be over.`,
      )
      for (const waiter of waiters) if (this.#leave(id, waiter)) waiter.reject(error)
    } else if (isFinal(job.state)) for (const waiter of waiters) if (this.#leave(id, waiter)) finish(job, waiter)
  }

  /** Stops waiting: callers that still wait get `engine.stopped`. */
  close(): void {
    for (const [id, waiters] of this.#waiters) {
      const message = `The engine was stopped before the job ${id} had ended. The job stays stored.`
      for (const waiter of waiters)
        if (this.#leave(id, waiter)) waiter.reject(new SluiceError('engine.stopped', message))
    }
  }

  /** Waits for the end of a job. @throws {SluiceError} the codes of `job.result` */
  async wait(id: string, options: { timeout?: Duration }): Promise<unknown> {
    checkOptions(options, ['timeout'], 'job.result')
    const { timeout } = options
    const timeoutMs = timeout === undefined ? null : durationMs(timeout, 'timeout of result()')
    const store = await this.#store()
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { resolve, reject, timer: null }
      const giveUp = (error: Error): void => {
        if (this.#leave(id, waiter)) reject(error)
      }
      const waiters = this.#waiters.get(id) ?? new Set()
      this.#waiters.set(id, waiters.add(waiter))
      this.#watch(store)
      if (timeoutMs !== null) {
        const message = `The job ${id} had not ended after ${timeoutMs} ms. It continues.`
        waiter.timer = this.#clock.setTimer(() => giveUp(new SluiceError('job.result.timeout', message)), timeoutMs)
      }
      if (this.#running.has(id)) return
      this.#fresh.set(waiter, id)
      this.#look()
    })
  }

  /** Looks for ends, unless a look is under way, which is followed by another. */
  #look(): void {
    if (this.#looking || (this.#fresh.size === 0 && (this.#reported === null || this.#rest))) return
    this.#looking = true
    // By then a claim that shared the commit of an enqueue has reported what it started here.
    setImmediate(() => {
      void this.#lookOnce().finally(() => {
        this.#looking = false
        this.#look()
      })
    })
  }

  /** Asks which jobs have ended: of those with new callers, and of all once others have ended some. */
  async #lookOnce(): Promise<void> {
    const fresh = [...this.#fresh].filter(([, id]) => !this.#running.has(id))
    const reported = this.#rest ? null : this.#reported
    this.#fresh.clear()
    if (reported) this.#reported = null
    const isElsewhere = (id: string): boolean => reported === 'any' || !this.#running.has(id)
    const ids = reported ? [...this.#waiters.keys()].filter(isElsewhere) : [...new Set(fresh.map(([, id]) => id))]
    try {
      const store = await this.#store()
      for (let i = 0; i < ids.length; i += ASKED_AT_ONCE)
        for (const id of await store.ended(ids.slice(i, i + ASKED_AT_ONCE))) this.settled(id)
      if (reported) this.#restFor(REST_MS * Math.floor(ids.length / ASKED_AT_ONCE))
    } catch (error) {
      for (const [waiter, id] of fresh) if (this.#leave(id, waiter)) waiter.reject(error)
      if (!reported || this.#waiters.size === 0) return
      this.#note(reported)
      this.#restFor(AGAIN_AFTER_MS)
    }
  }

  /** Others have ended jobs, or anything may have happened. */
  #note(change: 'ended' | 'any'): void {
    if (this.#reported !== 'any') this.#reported = change
  }

  #restFor(ms: number): void {
    if (ms === 0) return
    this.#rest = this.#clock.setTimer(() => {
      this.#rest = null
      this.#look()
    }, ms)
    this.#rest.unref?.()
  }

  /** Ends one wait and its timer, which would keep the process alive; false: it had already ended. */
  #leave(id: string, waiter: Waiter): boolean {
    const waiters = this.#waiters.get(id)
    if (!waiters?.delete(waiter)) return false
    waiter.timer?.cancel()
    if (waiters.size === 0) this.#waiters.delete(id)
    this.#unwatch()
    return true
  }

  /** Other processes may run the job, so their commits cause another read. */
  #watch(store: Store): void {
    this.#stopWatching ??= store.watch((change) => {
      if (change === 'work' || change === 'cancelled') return
      this.#note(change)
      this.#look()
    })
  }

  #unwatch(): void {
    if (this.#waiters.size > 0) return
    this.#stopWatching?.()
    this.#stopWatching = null
    this.#reported = null
    this.#rest?.cancel()
    this.#rest = null
  }
}

function resolveWith(result: string | null, waiter: Waiter): void {
  try {
    waiter.resolve(result === null ? undefined : JSON.parse(result))
  } catch (error) {
    waiter.reject(error)
  }
}

function finish(job: JobRecord, waiter: Waiter): void {
  if (job.state === 'completed') return resolveWith(job.result, waiter)
  if (job.state === 'cancelled') return waiter.reject(new JobCancelled(job))
  waiter.reject(new JobDiscarded(job))
}

/**
 * The job will not complete: its attempts are used up, its error was final, or a limit rejected it. Its `cause` is the
 * last error as it was stored, with its stack and its own causes.
 */
export class JobDiscarded extends SluiceError {
  readonly jobId: string
  /** The stored code of the last error. */
  readonly reason: string
  /** The stored message of the last error. */
  readonly stored: string

  constructor(job: JobRecord) {
    const stored = job.error?.message ?? 'no error is stored'
    super(
      'job.discarded',
      `The job ${job.id} of task ${job.task} was discarded after ${job.attempt} attempt${job.attempt === 1 ? '' : 's'}: ${stored}`,
      job.error ? { cause: errorFrom(job.error) } : {},
    )
    this.stored = stored
    this.name = 'JobDiscarded'
    this.jobId = job.id
    this.reason = job.error?.code ?? 'handler.failed'
  }
}

/** The job was cancelled before it completed. */
export class JobCancelled extends SluiceError {
  readonly jobId: string

  constructor(job: JobRecord) {
    super('job.cancelled', `The job ${job.id} of task ${job.task} was cancelled.`)
    this.name = 'JobCancelled'
    this.jobId = job.id
  }
}

/** The refusal of a job whose unique key another one holds. */
function uniqueConflict(job: NewJob, holder: string): SluiceError {
  return new SluiceError(
    'unique.conflict',
    `The unique key of this ${job.task} job is held by the job ${holder}. Nothing was enqueued.`,
  )
}
