import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { checkFlowName, MAX_UNREAD_SIGNALS, type NewWorkflow } from '../../jobs/workflow.ts'
import type { Store } from '../../store/contract/store.ts'
import type { FlowAddress as StoredAddress, SignalAnswer, StartedWorkflow } from '../../store/contract/workflows.ts'
import type { FlowEngine } from '../define/flow-entry.ts'
import type { ServedQueues } from '../define/served-queues.ts'
import type {
  FlowAddress,
  FlowStartOptions,
  StartedFlowOf,
  WorkflowDefinition,
  WorkflowEngine,
} from '../define/workflow.ts'
import type { Events } from '../events/events.ts'
import { type Carried, carrying, type Instrumentation } from '../events/instrumentation.ts'
import type { Wakeup } from '../events/wakeup.ts'
import { JobCancelled, JobDiscarded, type Results } from './results.ts'

/** The parts of a starter. */
export interface FlowStarterOptions {
  readonly flows: FlowEngine
  readonly events: Events
  readonly results: Results
  readonly servedQueues: ServedQueues
  readonly wakeup: Wakeup
  /** Names the engine in messages. */
  readonly about: () => string
  /** The same for engines that share a store. */
  readonly place: unknown
  readonly store: () => Store | Promise<Store>
  /** Throws once the engine has been stopped. */
  readonly checkOpen: (what: string) => void
  readonly instrumentation: () => Instrumentation | null
}

/** Starts the flows of an engine's workflows, and sends them signals. */
export class FlowStarter implements WorkflowEngine {
  readonly #options: FlowStarterOptions

  constructor(options: FlowStarterOptions) {
    this.#options = options
  }

  get about(): string {
    return this.#options.about()
  }

  get place(): unknown {
    return this.#options.place
  }

  /** @param changed called for each prepared start, which it may change */
  async start(
    definition: WorkflowDefinition,
    inputs: readonly unknown[],
    options: FlowStartOptions,
    changed: (start: NewWorkflow) => NewWorkflow = (start) => start,
  ): Promise<readonly StartedFlowOf[]> {
    const { checkOpen, flows, instrumentation } = this.#options
    checkOpen(`started for ${definition.name}`)
    const prepared = await Promise.all(inputs.map((input) => definition.prepare(flows, input, options)))
    const starts = prepared.map(changed)
    const [first] = starts
    if (!first) return []
    const store = (carried: Carried): Promise<StartedFlowOf[]> =>
      this.#store(
        starts.map((start) => ({ ...start, job: carrying(start.job, carried) })),
        options,
      )
    const call = { task: definition.name, queue: first.job.queue, count: starts.length }
    return instrumentation()?.enqueue(call, store) ?? this.#store(starts, options)
  }

  async #store(starts: readonly NewWorkflow[], options: FlowStartOptions): Promise<StartedFlowOf[]> {
    const { servedQueues, wakeup } = this.#options
    const opened = this.#options.store()
    const store = opened instanceof Promise ? await opened : opened
    const answers = store.startWorkflows(starts, options.tx)
    if (!store.notifiesOwnWrites) wakeup.notify('work')
    else if (store.takesClaim) wakeup.notify('storing')
    const stored = await answers
    servedQueues.enqueued(starts.map(({ job }) => job))
    if (starts.some(({ delayUs, deadline }) => delayUs !== null || deadline !== null)) wakeup.notify('delayed')
    return stored.map((answer, i) => this.#started(starts[i] as NewWorkflow, answer))
  }

  #started({ kind, name, key }: NewWorkflow, answer: StartedWorkflow): StartedFlowOf {
    const { events, results } = this.#options
    const { id } = answer
    if (answer.kind === 'conflict')
      throw new SluiceError(
        'flow.conflict',
        `The flow ${id} of ${name} runs with the key ${JSON.stringify(key)}. Nothing was started.`,
      )
    if (answer.kind === 'created') events.emit('flow.started', { id, kind, name, jobs: 1 })
    const job = results.handle(id, answer.kind !== 'created')
    return {
      id,
      key,
      duplicate: job.duplicate,
      result: async (options: { timeout?: Duration } = {}) => {
        checkOptions(options, ['timeout'], 'result of a flow')
        return job.result(options).catch(async (error: unknown) => {
          throw (await this.#failureOf(id, name, error)) ?? endOf(id, name, error)
        })
      },
    }
  }

  /** The error of a flow that failed while its main job ran: the job itself was cancelled. */
  async #failureOf(id: string, name: string, cause: unknown): Promise<FlowFailed | null> {
    if (!(cause instanceof JobCancelled)) return null
    const { error = null } = (await (await this.#options.store()).getFlow(id)) ?? {}
    return error && new FlowFailed(id, name, { reason: error.code, stored: error.message }, cause)
  }

  async signal(
    { name }: WorkflowDefinition,
    to: FlowAddress,
    signal: string,
    payload: string,
    once: string | null,
  ): Promise<{ readonly duplicate: boolean }> {
    this.#options.checkOpen(`sent to a flow of ${name}`)
    return sendSignal(this.#options, name, to, { signal, payload, once })
  }
}

/** A signal as it is stored. */
export interface CheckedSignal {
  readonly signal: string
  /** JSON text. */
  readonly payload: string
  readonly once: string | null
}

/**
 * Sends a checked signal to a flow of a workflow.
 * @throws {SluiceError} `option.invalid`, `flow.not_found`, `flow.ended`, `flow.inbox_full`
 */
export async function sendSignal(
  { events, store: opened, wakeup }: Pick<FlowStarterOptions, 'events' | 'store' | 'wakeup'>,
  workflow: string,
  to: FlowAddress,
  { signal, payload, once }: CheckedSignal,
): Promise<{ readonly duplicate: boolean }> {
  const address = addressOf(workflow, to)
  const store = await opened()
  const answer = await store.signalFlow(address, signal, payload, once)
  if (answer.kind === 'stored') {
    events.emit('flow.signalled', { id: answer.id, workflow, signal })
    if (!store.notifiesOwnWrites) wakeup.notify('work')
  } else if (answer.kind !== 'duplicate') throw refused(workflow, to, signal, answer)
  return { duplicate: answer.kind === 'duplicate' }
}

/** Checks the `once` of a signal; null: it has none. @throws {SluiceError} `option.invalid` */
export function checkOnce(once: unknown): string | null {
  return once === undefined ? null : checkFlowName(once, 'once of a signal')
}

function addressOf(name: string, to: FlowAddress): StoredAddress {
  if (typeof to === 'string') return { name, id: to }
  if (typeof to === 'object' && to !== null && typeof to.key === 'string') {
    checkOptions(to, ['key'], `the address of a signal to ${name}`)
    return { name, key: to.key }
  }
  throw new SluiceError(
    'option.invalid',
    `The address of a signal to ${name} is invalid: ${show(to)}. Expected the id of a flow, or { key }.`,
  )
}

function refused(name: string, to: FlowAddress, signal: string, { kind }: SignalAnswer): SluiceError {
  const flow = typeof to === 'string' ? `The flow ${to}` : `The flow of ${name} with the key ${JSON.stringify(to.key)}`
  if (kind === 'ended') return new SluiceError('flow.ended', `${flow} has ended. The signal ${signal} was not stored.`)
  if (kind === 'full')
    return new SluiceError(
      'flow.inbox_full',
      `${flow} has ${MAX_UNREAD_SIGNALS.toLocaleString('en')} unread signals. The signal ${signal} was not stored.`,
    )
  return new SluiceError('flow.not_found', `${flow} does not exist or no longer runs. Its retention may be over.`)
}

/** The error of a caller that waited for a flow. */
function endOf(id: string, name: string, error: unknown): unknown {
  if (error instanceof JobDiscarded) return new FlowFailed(id, name, error, error)
  if (error instanceof JobCancelled)
    return new SluiceError('flow.cancelled', `The flow ${id} of ${name} was cancelled.`, { cause: error })
  if (error instanceof SluiceError && error.code === 'job.result.timeout')
    return new SluiceError('flow.result.timeout', error.message.replace('The job', 'The flow'), { cause: error })
  if (error instanceof SluiceError && error.code === 'job.not_found')
    return new SluiceError('flow.not_found', `The flow ${id} is no longer stored. Its retention may be over.`)
  return error
}

/** The flow has failed: its body or a step of it threw, or it could not go on. */
export class FlowFailed extends SluiceError {
  readonly flowId: string
  /** The stored code of its error. */
  readonly reason: string

  constructor(id: string, name: string, { reason, stored }: Pick<JobDiscarded, 'reason' | 'stored'>, cause: Error) {
    super('flow.failed', `The flow ${id} of ${name} failed: ${stored}`, { cause })
    this.name = 'FlowFailed'
    this.flowId = id
    this.reason = reason
  }
}
