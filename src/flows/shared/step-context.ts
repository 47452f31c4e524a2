import { AsyncLocalStorage } from 'node:async_hooks'
import type { Timer } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import type { Logger } from '../../base/logger.ts'
import { asError } from '../../base/thrown.ts'
import type { FlowEntry, StepEnd } from '../../engine/define/flow-entry.ts'
import type { Answer } from '../../jobs/header-source.ts'
import type { Limit } from '../../policy/limits/define.ts'

/** The context of a step's code. */
export interface StepContext {
  /** The same at every attempt of this step of this flow: an idempotency key for the other side. */
  readonly key: string
  readonly flow: { readonly id: string; readonly key: string | null }
  readonly step: string
  /** 1 on the first run. */
  readonly attempt: number
  /** Aborts on a cancel, on the step's timeout, on a lost lease, and when a stop has waited long enough. */
  readonly signal: AbortSignal
  readonly logger: Logger
  /** Corrects the charge of this step in a limit that it lists, as `ctx.charge` of a task does. */
  charge(limit: Limit | string, units: number): void
  /** Reads the rate-limit headers of a response, as `ctx.observe` of a task does. */
  observe(response: Answer): void
}

/** The terms of one run of a step's code. */
export interface StepRun {
  readonly step: string
  readonly attempt: number
  readonly generation: number
  readonly flowKey: string | null
  readonly timeoutMs: number | null
}

const RUNNING = new AsyncLocalStorage<object>()

/** @throws {SluiceError} `step.nested` within the code of a step of these runs */
export function checkOutsideStep(entries: ReadonlySet<object>, what: string, name: unknown): void {
  const within = RUNNING.getStore()
  if (!within || !entries.has(within)) return
  throw new SluiceError(
    'step.nested',
    `The ${what} ${JSON.stringify(name)} was asked for within the code of another step. Ask for it in the body.`,
  )
}

/** The idempotency key of a step. Steps of later generations have others. */
export function stepKey(flow: string, generation: number, step: string): string {
  return `${flow}/${generation === 0 ? '' : `${generation}/`}${encodeURIComponent(step.toWellFormed())}`
}

/** Runs the code of a step until it ends or times out. It never rejects. */
export function runStep(entry: FlowEntry, run: StepRun, code: (context: StepContext) => unknown): Promise<StepEnd> {
  return entry.traced(run.step, run.attempt, () => runCode(entry, run, code))
}

function runCode(entry: FlowEntry, run: StepRun, code: (context: StepContext) => unknown): Promise<StepEnd> {
  return new Promise((resolve) => {
    const aborts = new Aborts(entry.signal)
    let timer: Timer | null = null
    const end = (outcome: StepEnd): void => {
      timer?.cancel()
      aborts.release()
      resolve(outcome)
    }
    const { timeoutMs } = run
    if (timeoutMs !== null)
      timer = entry.engine.clock.setTimer(() => {
        const error = timedOut(entry, run, timeoutMs)
        aborts.abort(error)
        end({ ok: false, error })
      }, timeoutMs)
    const threw = (error: unknown): void => end({ ok: false, error: asError(error) })
    try {
      const called = RUNNING.run(entry, code, contextOf(entry, run, aborts))
      Promise.resolve(called).then((value) => end({ ok: true, value }), threw)
    } catch (error) {
      threw(error)
    }
  })
}

function contextOf(entry: FlowEntry, run: StepRun, aborts: Aborts): StepContext {
  let logger: Logger | null = null
  return {
    key: stepKey(entry.flow, run.generation, run.step),
    flow: { id: entry.flow, key: run.flowKey },
    step: run.step,
    attempt: run.attempt,
    get signal(): AbortSignal {
      return aborts.signal
    },
    get logger(): Logger {
      return (logger ??= entry.logger({ step: run.step, attempt: run.attempt }))
    },
    charge: entry.charge,
    observe: entry.observe,
  }
}

function timedOut({ flow }: FlowEntry, { step }: StepRun, timeoutMs: number): SluiceError {
  return new SluiceError(
    'step.timeout',
    `The step ${JSON.stringify(step)} of the flow ${flow} ran longer than its timeout of ${timeoutMs} ms.`,
  )
}

/** The abort signal of one run of a step: its timeout's, or that of the run around it. Made when it is first read. */
class Aborts {
  readonly #around: AbortSignal
  #own: AbortController | null = null
  #reason: unknown = null
  readonly #follow = (): void => this.abort(this.#around.reason)

  constructor(around: AbortSignal) {
    this.#around = around
  }

  get signal(): AbortSignal {
    if (!this.#own) {
      this.#own = new AbortController()
      if (this.#reason !== null) this.#own.abort(this.#reason)
      else if (this.#around.aborted) this.abort(this.#around.reason)
      else this.#around.addEventListener('abort', this.#follow)
    }
    return this.#own.signal
  }

  abort(reason: unknown): void {
    this.#reason ??= reason
    this.#own?.abort(reason)
  }

  /** The run is over. */
  release(): void {
    this.#around.removeEventListener('abort', this.#follow)
  }
}
