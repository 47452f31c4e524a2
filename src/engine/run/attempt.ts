import type { Clock, Timer } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import type { Logger } from '../../base/logger.ts'
import { asError } from '../../base/thrown.ts'
import type { Admitted } from '../../jobs/job.ts'
import type { Answer } from '../../jobs/header-source.ts'
import { validate } from '../../jobs/schema.ts'
import { carriedBy, type Instrumentation } from '../events/instrumentation.ts'
import type { EndReason, RunEnd } from '../events/run-end.ts'
import type { Context, TaskDefinition } from '../define/task.ts'

/** What a run may ask of its engine. */
export interface RunHost {
  readonly clock: Clock
  /** As the engine was given it. */
  readonly handlerLogger: Logger
  readonly instrumentation: Instrumentation | null
  charge(job: Admitted, limit: string, units: number): void
  observe(job: Admitted, answer: Answer): void
  progress(job: Admitted, fraction: number): void
}

/** One attempt of one job in this process. */
export class JobRun {
  readonly job: Admitted
  readonly task: TaskDefinition
  /** The schema's output, once known: what callbacks are given. */
  input: unknown
  readonly #host: RunHost
  #controller: AbortController | null = null
  #reason: unknown = null
  /** Who has asked it to end. */
  #asked: EndReason | null = null
  #timer: Timer | null = null
  #end: ((end: RunEnd) => void) | null = null

  constructor(job: Admitted, task: TaskDefinition, host: RunHost) {
    this.job = job
    this.task = task
    this.#host = host
  }

  /** Runs the handler to its end, its timeout, or an end from outside; never rejects. */
  run(): Promise<RunEnd> {
    const { instrumentation } = this.#host
    if (!instrumentation) return this.#run()
    const { id, task, queue, attempt, extra } = this.job
    let own: Promise<RunEnd> | null = null
    // Made once: what stands around a run may fail, and the run still comes to its own end.
    const work = (): Promise<RunEnd> => (own ??= this.#run())
    try {
      return instrumentation.run({ id, task, queue, attempt, carried: carriedBy(extra) }, work).catch(work)
    } catch {
      return work()
    }
  }

  #run(): Promise<RunEnd> {
    return new Promise((resolve) => {
      this.#end = (end): void => {
        this.#end = null
        this.#timer?.cancel()
        resolve(end)
      }
      const { timeoutMs } = this.task
      if (timeoutMs !== null) this.#timer = this.#host.clock.setTimer(() => this.#timeOut(timeoutMs), timeoutMs)
      this.#call().then(
        (value) => this.#end?.({ kind: 'returned', value }),
        (error: unknown) => this.#end?.({ kind: 'threw', error: asError(error), after: this.#asked }),
      )
    })
  }

  /** Aborts the handler's signal; with `now`, does not wait for the handler. */
  abort(by: EndReason, now: boolean): void {
    this.#asked ??= by
    this.#abort(
      new SluiceError(
        by === 'cancel' ? 'job.cancelled' : by === 'lease' ? 'lease.lost' : 'engine.stopped',
        REASONS[by],
      ),
    )
    if (now) this.#end?.({ kind: 'ended', by })
  }

  async #call(): Promise<unknown> {
    const { job, task } = this
    const raw = inputOf(job)
    if (task.schema) {
      const checked = validate(task.schema, raw, `the stored input of task ${task.name}`)
      this.input = checked instanceof Promise ? await checked : checked
    } else this.input = raw === null ? undefined : raw
    return task.run(this.input as never, this.#context() as Context<never>)
  }

  #context(): Context<unknown> {
    const host = this.#host
    const { job, input } = this
    const { id } = job
    const occurrence = job.occurrence
      ? { schedule: job.occurrence.schedule, dueAt: new Date(job.occurrence.dueMs) }
      : null
    const signal = (): AbortSignal => this.#signal()
    return {
      job: { id, input, occurrence, ...flowOf(job) },
      attempt: job.attempt,
      get signal(): AbortSignal {
        return signal()
      },
      logger: host.handlerLogger,
      charge: (limit, units): void => host.charge(job, typeof limit === 'string' ? limit : limit.name, units),
      observe: (response): void => host.observe(job, response),
      progress: (fraction): void => host.progress(job, Math.min(1, Math.max(0, fraction))),
    }
  }

  /** Made when first asked for: most handlers never look. */
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
    this.#end?.({ kind: 'threw', error, after: this.#asked })
  }

  #abort(reason: unknown): void {
    this.#reason ??= reason
    this.#controller?.abort(reason)
  }
}

function inputOf({ id, task, input }: Admitted): unknown {
  try {
    return JSON.parse(input) as unknown
  } catch (cause) {
    throw new SluiceError('job.unreadable', `The stored input of the job ${id} of task ${task} is no JSON.`, { cause })
  }
}

/** What the handler of a flow's job is told of the flow. */
function flowOf({ flow }: Admitted): Pick<Context<unknown>['job'], 'flow' | 'parentResults'> {
  if (!flow) return { flow: null, parentResults: null }
  const { id, node, callback, parentResults: texts } = flow
  const parentResults = texts && texts.map((text): unknown => (text === null ? null : JSON.parse(text)))
  return { flow: { id, node, callback }, parentResults }
}

const REASONS: Readonly<Record<EndReason, string>> = {
  cancel: 'The job was cancelled while it ran.',
  lease: 'The lease of this run is over: another worker may run the job.',
  stop: 'The worker was stopped before the job ended.',
}
