import type { Duration } from '../../base/duration.ts'
import type { Kept } from '../../base/json-value.ts'
import type { CallOptions } from '../../engine/define/flow.ts'
import type { Task } from '../../engine/define/task.ts'
import type { RetryOptions } from '../../jobs/retry-policy.ts'
import type { LimitUse } from '../../policy/limits/define.ts'
import type { Settled } from '../machine/moves.ts'
import type { StepContext } from '../shared/step-context.ts'
import type { ChildOptions } from '../shared/start-child.ts'
import type { Out, Schemas, Startable } from '../shared/startable.ts'

/** The options of one step. */
export interface StepOptions {
  /**
   * All must admit the step, at once, before it starts. While they do not, it waits without a slot. Each attempt pays
   * again.
   */
  readonly limits?: readonly LimitUse<void>[]
  readonly retry?: RetryOptions
  /** Of each attempt, from its start; default: none. Waiting for a budget does not count. */
  readonly timeout?: Duration
  /** −100 to 100, higher first; default: that of the flow. */
  readonly priority?: number
  /** Where it waits and runs; default: the flow's queue. */
  readonly queue?: string
}

/**
 * The steps of a flow. What has a name is done once: its result is stored, and a body that is entered again gets it.
 * Between steps there is plain code, which may run again: it must have no effect of its own.
 */
export interface Steps<Sig extends Schemas> {
  /** The flow's id. */
  readonly id: string
  readonly startedAt: Date
  /**
   * Runs code to its end, and remembers its result; at least once if a crash interrupts it. The flow waits without a
   * slot while a limit is closed.
   * @throws {StepFailed} when its attempts are used up; the body may catch it
   */
  step<R>(name: string, run: (step: StepContext) => R | Promise<R>): Promise<Kept<Awaited<R>>>
  step<R>(name: string, options: StepOptions, run: (step: StepContext) => R | Promise<R>): Promise<Kept<Awaited<R>>>
  /**
   * Runs a task as a step, on any worker that lists it, in any language. Its limits, retries and timeout are the task's
   * and those of the options, which are those of `enqueue` without `unique` and `tx`. `delay` begins with the call.
   */
  call<I, O, R>(
    name: string,
    task: Task<I, O, R>,
    input: NoInfer<I>,
    options?: CallOptions<NoInfer<O>>,
  ): Promise<Kept<R>>
  /**
   * Runs a task for each of at most 10,000 items, at most `atOnce` at a time. The results are in the order of the
   * items. `onFailure: 'collect'` answers failures as data; otherwise the first one fails the step.
   */
  map<I, O, R>(
    name: string,
    task: Task<I, O, R>,
    inputs: readonly NoInfer<I>[],
    options?: { readonly atOnce?: number; readonly onFailure?: 'fail' },
  ): Promise<Kept<R>[]>
  map<I, O, R>(
    name: string,
    task: Task<I, O, R>,
    inputs: readonly NoInfer<I>[],
    options: { readonly atOnce?: number; readonly onFailure: 'collect' },
  ): Promise<Settled<Kept<R>>[]>
  /** Runs another workflow, machine or graph, and waits for its result. It is cancelled with this flow. */
  child<I, R>(name: string, of: Startable<I, R, never>, input: NoInfer<I>, options?: ChildOptions): Promise<Kept<R>>
  /** Starts a flow that outlives this one. */
  detach<I, R>(
    name: string,
    of: Startable<I, R, never>,
    input: NoInfer<I>,
    options?: ChildOptions,
  ): Promise<{ readonly id: string }>
  /** Waits without a slot, by the store's clock. */
  sleep(name: string, duration: Duration): Promise<void>
  /** Waits without a slot until an instant of the wall clock. */
  sleepUntil(name: string, at: Date): Promise<void>
  /**
   * The next signal of this name, in the order in which they were sent; one that was sent before counts. Null when
   * `within` is over.
   */
  signal<N extends keyof Sig & string>(name: N): Promise<Out<Sig[N]>>
  signal<N extends keyof Sig & string>(name: N, options: { readonly within: Duration }): Promise<Out<Sig[N]> | null>
  /**
   * Guards a change of the code: true for a flow that is here for the first time under this code, false for one that
   * was past this point before. The answer is remembered.
   */
  changed(name: string): Promise<boolean>
}
