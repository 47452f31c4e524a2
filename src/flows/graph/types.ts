import type { Duration } from '../../base/duration.ts'
import type { Kept } from '../../base/json-value.ts'
import type { Task } from '../../engine/define/task.ts'
import type { Schema } from '../../jobs/schema.ts'
import type { RetryOptions } from '../../jobs/retry-policy.ts'
import type { Out, Schemas, Startable } from '../shared/startable.ts'
import type { StepContext } from '../shared/step-context.ts'
import type { Path, StepLimit } from '../shared/step-limits.ts'
import type { Condition } from './form.ts'

/** How a step runs. V: what it sees. */
export interface StepOptions<V> {
  /**
   * All must admit it, at once, before it starts. While they do not, it waits without a slot. Every attempt pays again.
   */
  readonly limits?: readonly StepLimit<V>[]
  /** Default: three attempts, exponential from 1 s. */
  readonly retry?: RetryOptions
  /** The time of each attempt, from its start; waiting for a budget does not count. Default: none. */
  readonly timeout?: Duration
  /** −100 to 100, higher first; default: that of the flow. */
  readonly priority?: number
  /** Where it waits and runs; default: the flow's queue. */
  readonly queue?: string
}

/** The values that a step of a graph sees: the flow's input, and the outcomes of the steps that it comes after. */
export type Seen<S, A extends keyof S> = { readonly [K in ('input' & keyof S) | A]: S[K] }
type NewName<S, N extends string> = N extends keyof S ? never : N
/** `when` makes an output optional for those behind the step; `continue` hands them its failure instead. */
type Left<R, Opt> =
  | Kept<Awaited<R>>
  | (Opt extends { readonly when: unknown } ? undefined : never)
  | (Opt extends { readonly onFailure: 'continue' } ? Failed : never)
/** The failure of a step with `onFailure: 'continue'`, for those behind it. */
export interface Failed {
  readonly failed: { readonly code: string; readonly message: string }
}
type With<S, N extends string, O> = S & { readonly [K in N]: O }

/** The options of a step of a graph. V: what it sees. */
export interface GraphStepOptions<V> extends StepOptions<V> {
  /** False: the step is skipped, which counts as done. A function, or a path with a comparison. */
  readonly when?: ((seen: V) => boolean) | Condition<Path<V>>
  /** `stop` (default): those behind it never run; `continue`: they go on, and are handed the failure. */
  readonly onFailure?: 'stop' | 'continue'
}

/** Adds steps to a graph. Each method answers the graph with that step in it. V: what the step sees. */
export interface GraphSteps<I, S, V, Sig extends Schemas> {
  /** A function: its result is stored once, and seen by the steps behind it after JSON. */
  step<const N extends string, R, const Opt extends GraphStepOptions<V>>(
    name: N & NewName<S, N>,
    options: Opt,
    run: (seen: V, step: StepContext) => R | Promise<R>,
  ): Graph<I, With<S, N, Left<R, Opt>>, Sig>
  step<const N extends string, R>(
    name: N & NewName<S, N>,
    run: (seen: V, step: StepContext) => R | Promise<R>,
  ): Graph<I, With<S, N, Kept<Awaited<R>>>, Sig>
  /** The next step runs for each item of a list, at most 10,000; its output is theirs, in order. */
  each<T>(
    over: (seen: V) => readonly T[],
    options?: { readonly atOnce?: number },
  ): GraphEach<I, S, V & { readonly item: T; readonly index: number }, Sig>
  /** A task, which any worker that knows it may run. Its input is computed when its time comes. */
  call<const N extends string, TI, TO, R>(
    name: N & NewName<S, N>,
    task: Task<TI, TO, R>,
    input: (seen: V) => NoInfer<TI>,
    options?: Omit<GraphStepOptions<V>, 'onFailure' | 'when'>,
  ): Graph<I, With<S, N, Kept<R>>, Sig>
  /** Another workflow, machine or graph, which is cancelled with this flow. */
  child<const N extends string, CI, R>(
    name: N & NewName<S, N>,
    of: Startable<CI, R, never>,
    input: (seen: V) => NoInfer<CI>,
  ): Graph<I, With<S, N, Kept<R>>, Sig>
  /** Waits without a slot: for a time on the store's clock, or until an instant. */
  sleep<const N extends string>(
    name: N & NewName<S, N>,
    duration: Duration | ((seen: V) => Date),
  ): Graph<I, With<S, N, null>, Sig>
  /** Waits for the signal of this name; its payload is the output, or null once `within` is over. */
  signal<const N extends string, P extends Schema>(
    name: N & NewName<S, N>,
    payload: P,
  ): Graph<I, With<S, N, Out<P>>, With<Sig, N, P>>
  signal<const N extends string, P extends Schema>(
    name: N & NewName<S, N>,
    payload: P,
    options: { readonly within: Duration },
  ): Graph<I, With<S, N, Out<P> | null>, With<Sig, N, P>>
}

/** The step that runs for each item. */
export interface GraphEach<I, S, V, Sig extends Schemas> {
  /** A function for each item. One item that fails for good fails the step. */
  step<const N extends string, R>(
    name: N & NewName<S, N>,
    options: StepOptions<V>,
    run: (seen: V, step: StepContext) => R | Promise<R>,
  ): Graph<I, With<S, N, Kept<Awaited<R>>[]>, Sig>
  step<const N extends string, R>(
    name: N & NewName<S, N>,
    run: (seen: V, step: StepContext) => R | Promise<R>,
  ): Graph<I, With<S, N, Kept<Awaited<R>>[]>, Sig>
  /** A task for each item. */
  call<const N extends string, TI, TO, R>(
    name: N & NewName<S, N>,
    task: Task<TI, TO, R>,
    input: (seen: V) => NoInfer<TI>,
    options?: StepOptions<V>,
  ): Graph<I, With<S, N, Kept<R>[]>, Sig>
  /** A flow for each item. */
  child<const N extends string, CI, R>(
    name: N & NewName<S, N>,
    of: Startable<CI, R, never>,
    input: (seen: V) => NoInfer<CI>,
  ): Graph<I, With<S, N, Kept<R>[]>, Sig>
}

/** A graph so far. Its steps begin with the flow, unless they come `after` others. */
export interface Graph<I, S, Sig extends Schemas> extends GraphSteps<I, S, Seen<S, never>, Sig> {
  /** The next step waits for these to end, and sees their outcomes. */
  after<const A extends Exclude<keyof S & string, 'input'>>(...steps: readonly A[]): GraphSteps<I, S, Seen<S, A>, Sig>
  /** Undoes a step that completed, once the flow has failed: one at a time, the last completed first. */
  undo<const N extends Exclude<keyof S & string, 'input'>>(
    step: N,
    options: StepOptions<Seen<S, N>>,
    run: (seen: Seen<S, N>, step: StepContext) => unknown,
  ): Graph<I, S, Sig>
  /**
   * Computes the result of the flow from the outcomes of all steps.
   * @throws {SluiceError} `graph.invalid`, whose cause is the list of all faults
   */
  output<R>(of: (seen: S) => R): GraphDefinition<I, R, Sig>
}

/** A finished graph. */
export interface GraphDefinition<I, R, Sig extends Schemas = {}> extends Startable<I, R, Sig> {
  /** The sha-256 of the normal form: two graphs of one hash have the same steps, edges and terms. */
  readonly hash: string
  /** The normal form, for JSON.stringify. Where code stands, it says `{ "code": true }`. */
  toJSON(): unknown
}

/** The options of a graph. */
export interface GraphOptions<O> {
  /** At most one running flow of a key; signals may be sent to it. */
  readonly key?: (input: O) => string
  /** Taken before the first step; permits are held until the flow ends. */
  readonly hold?: readonly StepLimit<O>[]
  /** `finish` (default): what does not come after the failure goes on; `fast`: the rest is cancelled at once. */
  readonly onFailure?: 'finish' | 'fast'
  /** The time of the whole flow. Default: none. */
  readonly timeout?: Duration
  /** Where its steps wait and run that name no other; default `default`. */
  readonly queue?: string
}
