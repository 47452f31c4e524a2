import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import type { Kept } from '../../base/json-value.ts'
import { checkOptions, show } from '../../base/options.ts'
import { checkOnce } from '../../engine/run/start-flows.ts'
import {
  engineOf,
  type FlowAddress,
  type FlowStartOptions,
  keepWorkflow,
  type WorkflowDefinition,
} from '../../engine/define/workflow.ts'
import type { Schema } from '../../jobs/schema.ts'

/** Schemas by name: of signals, or of a machine's states. */
export type Schemas = { readonly [name: string]: Schema }
/** The input of a schema; `never` for any other value. */
export type In<X> = X extends { readonly '~standard': { readonly types?: { readonly input: infer I } | undefined } }
  ? I
  : never
/** The output of a schema; `never` for any other value. */
export type Out<X> = X extends { readonly '~standard': { readonly types?: { readonly output: infer O } | undefined } }
  ? O
  : never

/** One durable execution. */
export interface Flow<R> {
  readonly id: string
  readonly key: string | null
  /** An earlier flow of this key was returned. */
  readonly duplicate: boolean
  /**
   * Waits until the flow has ended, in any process. The result is what the flow returned, after JSON.
   * @throws {SluiceError} `flow.failed`, `flow.cancelled`; `flow.result.timeout` after `timeout`, while the flow
   * continues
   */
  result(options?: { timeout?: Duration }): Promise<Kept<R>>
}

/** The options of one start of a flow. */
export type StartOptions = FlowStartOptions

/** A workflow, a machine or a graph. Each can be started, signalled, and be the child of another. */
export interface Startable<I, R, Sig extends Schemas = {}> {
  readonly name: string
  /** Only a type: the result of a flow. */
  readonly '~result'?: R
  /**
   * Starts a flow durably, through the one engine that lists the workflow.
   * @throws {SluiceError} `input.invalid`, `flow.conflict`, `task.no_engine`, and the codes of its first limits; then
   * nothing is stored
   */
  start(
    ...args: undefined extends I ? [input?: I, options?: StartOptions] : [input: I, options?: StartOptions]
  ): Promise<Flow<R>>
  /** Starts many flows in one transaction, all or none. */
  startMany(inputs: readonly I[], options?: StartOptions): Promise<Flow<R>[]>
  /**
   * Sends a signal to a running flow, by its id or its key. It is stored before this answers, and waits until the flow
   * asks for it. A second signal of the same name and `once` does nothing.
   * @throws {SluiceError} `flow.not_found`, `flow.ended`, `flow.inbox_full`, `input.invalid`
   */
  signal<N extends keyof Sig & string>(
    to: FlowAddress,
    name: N,
    payload: In<Sig[N]>,
    options?: { readonly once?: string },
  ): Promise<{ readonly duplicate: boolean }>
}

/** Makes the public object of a definition. */
export function startableOf<I, R, Sig extends Schemas, More extends object = {}>(
  definition: WorkflowDefinition,
  more: More = {} as More,
): Startable<I, R, Sig> & More {
  const { name } = definition
  const start = async (inputs: readonly unknown[], options: StartOptions): Promise<Flow<R>[]> =>
    (await engineOf(created).start(definition, inputs, options)) as Flow<R>[]
  const created: Startable<I, R, Sig> & More = Object.freeze({
    ...more,
    name,
    start: async (input?: unknown, options: StartOptions = {}): Promise<Flow<R>> =>
      (await start([input], options))[0] as Flow<R>,
    startMany: async (inputs: readonly unknown[], options: StartOptions = {}): Promise<Flow<R>[]> => {
      if (Array.isArray(inputs)) return start(inputs, options)
      throw new SluiceError(
        'option.invalid',
        `The inputs of startMany of ${name} are invalid: ${show(inputs)}. Expected a list of inputs.`,
      )
    },
    signal: async (to: FlowAddress, signal: string, payload: unknown, options: { readonly once?: string } = {}) => {
      checkOptions(options, ['once'], `signal of ${name}`)
      const engine = engineOf(created)
      return engine.signal(definition, to, signal, await definition.signal(signal, payload), checkOnce(options.once))
    },
  })
  keepWorkflow(created, definition)
  return created
}
