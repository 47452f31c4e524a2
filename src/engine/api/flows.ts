import { SluiceError } from '../../base/errors.ts'
import { extraOf } from '../../jobs/job-extra.ts'
import { checkOptions, checkText, show } from '../../base/options.ts'
import { isStorable } from '../../base/text.ts'
import { FLOW_STATES, type FlowKind, type FlowQuery, type FlowRecord, type FlowState } from '../../jobs/flow.ts'
import { checkFlow, type NewFlow } from '../../jobs/new-flow.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Events } from '../events/events.ts'
import { reportFlow } from '../events/flow-news.ts'
import { type FlowOptions, toFlow } from '../define/flow.ts'
import { type JobView, viewOf } from './jobs.ts'
import { type EnqueueContext, prepare } from '../run/enqueue.ts'
import type { Results } from '../run/results.ts'
import type { ServedQueues } from '../define/served-queues.ts'
import type { Job, TaskDefinition } from '../define/task.ts'
import { listed } from '../define/task-list.ts'
import type { Wakeup } from '../events/wakeup.ts'

/** The public view of a stored flow. */
export interface FlowView {
  readonly id: string
  readonly kind: FlowKind
  readonly name: string | null
  readonly state: FlowState
  /** The number of its jobs, without callbacks. */
  readonly total: number
  readonly completed: number
  /** Jobs that were discarded. Jobs cancelled because of them count as cancelled. */
  readonly discarded: number
  readonly cancelled: number
  readonly createdAt: Date
  readonly finishedAt: Date | null
  readonly meta: Readonly<Record<string, unknown>>
}

/** A flow that was started. */
export interface StartedFlow {
  readonly id: string
  /** Its jobs in their order, without callbacks. */
  readonly jobs: readonly Job<unknown>[]
}

interface Hooks {
  readonly store: () => Promise<Store>
  /** @throws {SluiceError} `engine.stopped` */
  readonly checkOpen: () => void
  readonly calls: EnqueueContext
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  readonly events: Events
  readonly results: Results
  readonly wakeup: Wakeup
  readonly servedQueues: ServedQueues
  /** Aborts a run of this process. */
  readonly cancelRun: (job: string) => Promise<void>
}

const KINDS: readonly FlowKind[] = ['chain', 'group', 'batch']
const QUERY = ['states', 'kind', 'name', 'limit', 'before'] as const

/** Flows: start, read, cancel. */
export class FlowsApi {
  readonly #hooks: Hooks

  constructor(hooks: Hooks) {
    this.#hooks = hooks
  }

  /**
   * Stores a flow and all its jobs durably, all or none. Jobs that wait for others are `pending` until those end. Then
   * they wait for their own limits as any job does.
   * @throws {SluiceError} `flow.invalid`, `task.unknown`, `engine.stopped`, and the codes of `enqueue` for each call;
   * then nothing is stored
   */
  async start(options: FlowOptions): Promise<StartedFlow> {
    const { calls, tasks, results } = this.#hooks
    const flow = await toFlow(calls.newId(), options, (task, input, callOptions) =>
      prepare(calls, listed(tasks, task), input, callOptions),
    )
    await this.register(flow)
    return { id: flow.id, jobs: flow.nodes.map(({ job }) => results.handle(job.id, false)) }
  }

  /** Stores a flow with prepared jobs, for `start`. @throws {SluiceError} `flow.invalid`, `engine.stopped` */
  async register(flow: NewFlow): Promise<void> {
    this.#hooks.checkOpen()
    checkFlow(flow)
    const store = await this.#hooks.store()
    await this.#hooks.calls.limits.store(store)
    await store.startFlow(flow)
    this.#hooks.servedQueues.enqueued(flow.nodes.map(({ job }) => job))
    const { id, kind, name, nodes } = flow
    this.#hooks.events.emit('flow.started', { id, kind, name, jobs: nodes.length })
    this.#hooks.wakeup.notify('work')
  }

  /** One flow; null: it does not exist, or its retention is over. */
  async get(id: string): Promise<FlowView | null> {
    checkText(id, 'flows.get: the id')
    const flow = await (await this.#hooks.store()).getFlow(id)
    return flow && toView(flow)
  }

  /**
   * Flows by state, kind and name, newest first.
   * @throws {SluiceError} `option.invalid` for an unknown option or a value out of range
   */
  async list(query: FlowQuery = {}): Promise<FlowView[]> {
    checkQuery(query)
    const store = await this.#hooks.store()
    // A name that no store can hold has no flow.
    return isStorable(query.name ?? '') ? (await store.flows(query)).map(toView) : []
  }

  /**
   * The jobs of a flow in their order, callbacks last.
   * @param page the number of jobs (1 to 1,000; default 100), and the node behind which they begin
   * @throws {SluiceError} `flow.not_found`
   */
  async jobs(id: string, page: { readonly limit?: number; readonly afterNode?: number } = {}): Promise<JobView[]> {
    checkText(id, 'flows.jobs: the id')
    checkPage(page)
    const store = await this.#hooks.store()
    if (!(await store.getFlow(id))) throw missing(id)
    return (await store.list({ flow: id, ...page })).map(viewOf)
  }

  /**
   * Cancels a flow. Its waiting jobs end at once, its running ones have their signals aborted, and no callback runs.
   * Returns false if it had already ended.
   * @throws {SluiceError} `flow.not_found`
   */
  async cancel(id: string): Promise<boolean> {
    checkText(id, 'flows.cancel: the id')
    const answer = await (await this.#hooks.store()).cancelFlow(id)
    if (answer.kind === 'missing') throw missing(id)
    if (answer.kind === 'finished') return false
    for (const job of answer.requested) void this.#hooks.cancelRun(job)
    const { events, results } = this.#hooks
    reportFlow(answer.news, events, (job) => results.settled(job))
    this.#hooks.wakeup.notify('work')
    return true
  }
}

function checkQuery(query: FlowQuery): void {
  checkOptions(query, QUERY, 'flows.list', { aliases: { state: 'states' } })
  const { states, kind, name, limit, before } = query
  const wrong = (why: string): SluiceError => new SluiceError('option.invalid', `flows.list: ${why}`)
  if (states !== undefined && !Array.isArray(states))
    throw wrong(`states is invalid: ${show(states)}. Expected a list of ${FLOW_STATES.join(', ')}.`)
  for (const state of (states ?? []) as readonly FlowState[])
    if (!FLOW_STATES.includes(state))
      throw wrong(`states is invalid: ${show(state)}. Expected ${FLOW_STATES.join(', ')}.`)
  if (kind !== undefined && !KINDS.includes(kind))
    throw wrong(`kind is invalid: ${show(kind)}. Expected one of ${KINDS.join(', ')}.`)
  if (name !== undefined) checkText(name, 'flows.list: name')
  if (before !== undefined && !Number.isSafeInteger(before))
    throw wrong(`before is invalid: ${show(before)}. Expected the number of a flow.`)
  checkLimit(limit, 'flows.list')
}

function checkPage(page: { readonly limit?: number; readonly afterNode?: number }): void {
  checkOptions(page, ['limit', 'afterNode'], 'flows.jobs')
  checkLimit(page.limit, 'flows.jobs')
  const { afterNode } = page
  if (afterNode !== undefined && !(Number.isInteger(afterNode) && Math.abs(afterNode) <= 1_000_000))
    throw new SluiceError(
      'option.invalid',
      `flows.jobs: afterNode is invalid: ${show(afterNode)}. Expected the node of a job.`,
    )
}

function checkLimit(limit: unknown, what: string): void {
  if (limit === undefined || (typeof limit === 'number' && Number.isInteger(limit) && limit >= 1 && limit <= 1000))
    return
  throw new SluiceError('option.invalid', `${what}: limit is invalid: ${show(limit)}. Expected 1 to 1,000.`)
}

function toView(flow: FlowRecord): FlowView {
  const { id, kind, name, state, total, completed, discarded, cancelled, createdUs, finishedUs } = flow
  const { meta = {} } = extraOf(flow)
  return {
    id,
    kind,
    name,
    state,
    total,
    completed,
    discarded,
    cancelled,
    createdAt: new Date(createdUs / 1000),
    finishedAt: finishedUs === null ? null : new Date(finishedUs / 1000),
    meta,
  }
}

function missing(id: string): SluiceError {
  return new SluiceError('flow.not_found', `The flow ${id} does not exist. Its retention may be over.`)
}
