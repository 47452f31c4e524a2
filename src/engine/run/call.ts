import type { Timer } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import { asError } from '../../base/thrown.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import { extraOf } from '../../jobs/job-extra.ts'
import { validate } from '../../jobs/schema.ts'
import { carriedBy, type EndReason, type RunEnd, wrapped } from '../events/instrumentation.ts'
import type { Context, TaskDefinition } from '../define/task.ts'
import { type TermsOfQueues, timeoutOf } from '../define/job-terms.ts'
import { type EntryContext, entryOf } from './enter.ts'
import { HandlerContext } from './handler-context.ts'

/** The parts that handler calls share. */
export interface CallContext extends EntryContext {
  readonly queueTerms: TermsOfQueues
}

/** One call of the handler of a job: its timeout, its abort signal, its context. */
export class HandlerCall {
  readonly job: GrantedJob
  readonly task: TaskDefinition
  /** The schema's output, once known: the input of callbacks. */
  input: unknown
  readonly #shared: CallContext
  #controller: AbortController | null = null
  #reason: unknown = null
  /** The first cause of an abort. */
  #endReason: EndReason | null = null
  #timer: Timer | null = null
  #end: ((end: RunEnd) => void) | null = null

  constructor(job: GrantedJob, task: TaskDefinition, shared: CallContext) {
    this.job = job
    this.task = task
    this.#shared = shared
  }

  /** Runs the handler until it ends, times out or is aborted; never rejects. */
  run(): Promise<RunEnd> {
    const instrumentation = this.#shared.instrumentation()
    if (!instrumentation) return this.#run()
    const { id, task, queue, attempt, extra } = this.job
    const call = { id, task, queue, attempt, carried: carriedBy(extra) }
    return wrapped(
      () => this.#run(),
      (work) => instrumentation.run(call, work),
    )
  }

  #run(): Promise<RunEnd> {
    return new Promise((resolve) => {
      this.#end = (end): void => {
        this.#end = null
        this.#timer?.cancel()
        resolve(end)
      }
      const timeoutMs = extraOf(this.job).timeoutMs ?? timeoutOf(this.task, this.job.queue, this.#shared.queueTerms)
      if (timeoutMs !== null) this.#timer = this.#shared.clock.setTimer(() => this.#timeOut(timeoutMs), timeoutMs)
      const threw = (error: unknown): void =>
        this.#end?.({ kind: 'threw', error: asError(error), after: this.#endReason })
      try {
        const called = this.#call()
        if (called === undefined) this.#end?.({ kind: 'returned', value: undefined })
        else Promise.resolve(called).then((value) => this.#end?.({ kind: 'returned', value }), threw)
      } catch (error) {
        threw(error)
      }
    })
  }

  /** Aborts the handler's signal; with `now`, does not wait for the handler. */
  abort(by: EndReason, now: boolean): void {
    this.#endReason ??= by
    this.#abort(
      new SluiceError(
        by === 'cancel' ? 'job.cancelled' : by === 'lease' ? 'lease.lost' : 'engine.stopped',
        REASONS[by],
      ),
    )
    if (now) this.#end?.({ kind: 'ended', by })
  }

  /** Not async: most handlers need one promise, not three. */
  #call(): unknown {
    const { job, task } = this
    if (task.enter) return task.enter(entryOf(this.#shared, job, this.#signal()))
    const raw = inputOf(job)
    if (!task.schema) return this.#callWith(raw === null ? undefined : raw)
    const checked = validate(task.schema, raw, `the stored input of task ${task.name}`)
    return checked instanceof Promise ? checked.then((input) => this.#callWith(input)) : this.#callWith(checked)
  }

  #callWith(input: unknown): unknown {
    this.input = input
    const context: Context<unknown> = new HandlerContext(this.#shared, this.job, input, () => this.#signal())
    return this.task.run(input as never, context as Context<never>)
  }

  /** Created on first use: most handlers never read it. */
  #signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#reason !== null) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  #timeOut(timeoutMs: number): void {
    const error = new SluiceError(
      'job.timeout',
      `The job ${this.job.id} of task ${this.task.name} ran longer than its timeout of ${timeoutMs} ms.`,
    )
    this.#abort(error)
    this.#end?.({ kind: 'threw', error, after: this.#endReason })
  }

  #abort(reason: unknown): void {
    this.#reason ??= reason
    this.#controller?.abort(reason)
  }
}

function inputOf({ id, task, input }: GrantedJob): unknown {
  try {
    return JSON.parse(input) as unknown
  } catch (cause) {
    throw new SluiceError('job.unreadable', `The stored input of the job ${id} of task ${task} is not valid JSON.`, {
      cause,
    })
  }
}

const REASONS: Readonly<Record<EndReason, string>> = {
  cancel: 'The job was cancelled while it ran.',
  lease: 'The lease of this run has ended, so another worker may run the job.',
  stop: 'The worker was stopped before the job ended.',
}
