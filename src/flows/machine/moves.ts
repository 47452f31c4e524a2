import type { Duration } from '../../base/duration.ts'
import type { AnyWorkflow } from '../../engine/define/workflow.ts'
import type { LimitUse } from '../../policy/limits/define.ts'
import type { ChildOptions } from '../shared/start-child.ts'
import type { StepContext } from '../shared/step-context.ts'
import type { In, Out, Schemas, Startable } from '../shared/startable.ts'

declare const MOVE: unique symbol
declare const CHILD: unique symbol

/** Where a step of a machine goes, made by `to`. It is opaque, and has an effect only when the step returns it. */
export interface Move<R> {
  readonly [MOVE]: R
}

/** A flow that a step of a machine starts, made by `child`. It is opaque. */
export interface Child {
  readonly [CHILD]: unknown
}

/** The end of a child or an item: its value, or why it failed. */
export type Settled<R> =
  | { readonly ok: true; readonly value: R }
  | { readonly ok: false; readonly error: { readonly code: string; readonly message: string } }

/** How a step is reached. */
export interface ArrivalOptions<S> {
  /** Limits beside those that are declared on the step. */
  readonly limits?: readonly LimitUse<S>[]
  /** The earliest start from now. */
  readonly delay?: Duration
  /** −100 to 100, higher first; default: that of the flow. */
  readonly priority?: number
  /** Where it waits and runs; default: the machine's queue. */
  readonly queue?: string
}

/** Where a step may go. `St`: states by step. `R`: the machine's result. */
export interface To<St extends Schemas, Sig extends Schemas, R> extends StepContext {
  /** The next step, with its own state and limits: those declared on it, and those given here. Attempts begin at 1. */
  next<N extends keyof St & string>(step: N, state: In<St[N]>, arrival?: ArrivalOptions<NoInfer<Out<St[N]>>>): Move<R>
  /** This step once more, with the limits that it has: it pays again. It is not a failed attempt. */
  retry(options?: { readonly delay?: Duration }): Move<R>
  /** Waits until one of these signals has come, or `within` is over, and then for the limits of `then`. */
  wait<W extends keyof Sig & string, N extends keyof St & string>(
    on: readonly W[],
    then: N,
    state: In<St[N]>,
    arrival?: Omit<ArrivalOptions<NoInfer<Out<St[N]>>>, 'delay'> & { readonly within?: Duration },
  ): Move<R>
  /** Starts the children, waits until all have ended, and then for the limits of `then`. */
  join<N extends keyof St & string>(
    children: readonly Child[],
    then: N,
    state: In<St[N]>,
    arrival?: Omit<ArrivalOptions<NoInfer<Out<St[N]>>>, 'delay'>,
  ): Move<R>
  /** Ends the flow as completed. */
  done(result: R): Move<R>
  /** Ends the flow as failed, without another attempt. */
  fail(error: Error): Move<R>
  /**
   * The signals that this step was woken by, oldest first; empty: the time was over. Each is handed over once, unless
   * the step fails or returns `retry`.
   */
  readonly signals: readonly {
    readonly [N in keyof Sig & string]: { readonly name: N; readonly payload: Out<Sig[N]> }
  }[keyof Sig & string][]
  /** The ends of the children of the join before this step, in their order. */
  readonly children: readonly Settled<unknown>[]
}

/** The next step of a move, as it was given. */
export interface Target {
  readonly step: unknown
  readonly state: unknown
  readonly arrival: ArrivalOptions<never> & { readonly within?: Duration }
}

/** A child as it was given. */
export class ChildStart {
  readonly of: AnyWorkflow
  readonly input: unknown
  readonly options: ChildOptions

  constructor(of: AnyWorkflow, input: unknown, options: ChildOptions) {
    this.of = of
    this.input = input
    this.options = options
  }
}

/** A move as it was given. */
export class MachineMove {
  readonly move:
    | { readonly kind: 'next'; readonly target: Target }
    | { readonly kind: 'retry'; readonly options: { readonly delay?: Duration } }
    | { readonly kind: 'wait'; readonly on: readonly string[]; readonly target: Target }
    | { readonly kind: 'join'; readonly children: readonly ChildStart[]; readonly target: Target }
    | { readonly kind: 'done'; readonly result: unknown }
    | { readonly kind: 'fail'; readonly error: unknown }

  constructor(move: MachineMove['move']) {
    this.move = move
  }
}

/** Starts another workflow, machine or graph from a step of a machine, for `to.join`. It is cancelled with the flow. */
export function child<I, R>(of: Startable<I, R, never>, input: NoInfer<I>, options: ChildOptions = {}): Child {
  return Object.freeze(new ChildStart(of, input, options)) as unknown as Child
}
