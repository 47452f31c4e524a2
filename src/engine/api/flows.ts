import type { Clock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import { fromJsonText, toJsonText } from '../../base/json-value.ts'
import { brief, checkOptions, checkText, show } from '../../base/options.ts'
import { type FlowRecord, isWorkflowKind } from '../../jobs/flow.ts'
import type { NewJob } from '../../jobs/job.ts'
import { checkFlow, type NewFlow } from '../../jobs/new-flow.ts'
import { checkFlowName } from '../../jobs/workflow.ts'
import type { Store } from '../../store/contract/store.ts'
import { type FlowOptions, toFlow } from '../define/flow.ts'
import type { ServedQueues } from '../define/served-queues.ts'
import type { Job, TaskDefinition } from '../define/task.ts'
import { listed } from '../define/task-list.ts'
import type { WorkflowDefinition } from '../define/workflow.ts'
import type { Events } from '../events/events.ts'
import { reportFlow } from '../events/flow-news.ts'
import { type Carried, carrying, type Instrumentation } from '../events/instrumentation.ts'
import type { Wakeup } from '../events/wakeup.ts'
import { type EnqueueContext, prepare } from '../run/enqueue.ts'
import type { Results } from '../run/results.ts'
import { checkOnce, sendSignal } from '../run/start-flows.ts'
import { FlowLook } from './flow-look.ts'
import { flowCursorAfter, type FlowListQuery, type FlowPageQuery, flowQuery } from './flow-query.ts'
import { type FlowExplanation, type FlowStepView, type FlowView, flowViewOf } from './flow-views.ts'
import { type JobView, viewOf } from './job-view.ts'

/** A flow that was started. */
export interface StartedFlow {
  readonly id: string
  /** Its jobs in their order, without callbacks. */
  readonly jobs: readonly Job<unknown>[]
}

/** A flow with its steps. */
export interface FlowInspection extends FlowView {
  /** The value that a completed flow of a workflow returned, after JSON; else null. */
  readonly result: unknown
  /** In the order of their first writing; of a chain, a group or a batch its first 1,000 jobs. */
  readonly steps: readonly FlowStepView[]
}

/**
 * A flow by its id, or the running one that has a key. `workflow` may be left out if only one workflow has a running
 * flow of that key.
 */
export type FlowTarget = string | { readonly key: string; readonly workflow?: string }

/** The parts that flows need. */
export interface FlowHooks {
  readonly clock: Clock
  readonly store: () => Promise<Store>
  /** @throws {SluiceError} `engine.stopped` */
  readonly checkOpen: (what: string) => void
  readonly calls: EnqueueContext
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  /** The workflows that the engine lists. */
  readonly workflows: ReadonlyMap<string, WorkflowDefinition>
  readonly events: Events
  readonly results: Results
  readonly wakeup: Wakeup
  readonly servedQueues: ServedQueues
  readonly instrumentation: () => Instrumentation | null
  /** Aborts a run of this process. */
  readonly cancelRun: (job: string) => Promise<void>
}

/** Flows: start plain ones; read, explain, signal, retry and cancel any. */
export class FlowsApi {
  readonly #hooks: FlowHooks
  readonly #look: FlowLook

  constructor(hooks: FlowHooks) {
    this.#hooks = hooks
    this.#look = new FlowLook(hooks)
  }

  /**
   * Stores a chain, a group or a batch and all its jobs durably, all or none. Jobs that wait for others are `pending`
   * until those end. Then they wait for their own limits as any job does.
   * @throws {SluiceError} `flow.invalid`, `task.unknown`, `engine.stopped`, and the codes of `enqueue` for each call;
   * then nothing is stored
   */
  async start(options: FlowOptions): Promise<StartedFlow> {
    const { calls, tasks, results } = this.#hooks
    const flow = await toFlow(calls.newId(), options, (task, input, callOptions) =>
      prepare(calls, listed(tasks, task), input, callOptions),
    )
    const { id, nodes } = flow
    const jobs = nodes.map(({ job }) => results.handle(job.id, false))
    const store = async (carried: Carried): Promise<StartedFlow[]> => {
      await this.register(tracedFlow(flow, carried))
      return [{ id, jobs }]
    }
    const [first] = nodes
    const call = { task: first?.job.task ?? flow.kind, queue: first?.job.queue ?? 'default', count: nodes.length }
    await (this.#hooks.instrumentation()?.enqueue(call, store) ?? store({}))
    return { id, jobs }
  }

  /** Stores a flow with prepared jobs, for `start`. @throws {SluiceError} `flow.invalid`, `engine.stopped` */
  async register(flow: NewFlow): Promise<void> {
    this.#hooks.checkOpen('started as a flow')
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
    const flow = await this.#find(id, 'flows.get')
    return flow && flowViewOf(flow)
  }

  /**
   * Flows by state, kind, name, workflow and key, newest first.
   * @throws {SluiceError} `option.invalid` for an unknown option or a value out of range
   */
  async list(query: FlowListQuery = {}): Promise<FlowView[]> {
    const { store } = flowQuery(query, 'flows.list')
    return store ? (await (await this.#hooks.store()).flows(store)).map(flowViewOf) : []
  }

  /**
   * One page of the same list, and the cursor of the next page; null: there is none. A flow is on one page at most, even
   * if flows begin and go meanwhile.
   * @param query.cursor the cursor of an earlier page with the same filter
   * @throws {SluiceError} `option.invalid`, also for a cursor that no such page returned
   */
  async page(query: FlowPageQuery = {}): Promise<{ readonly flows: FlowView[]; readonly cursor: string | null }> {
    const { store, limit } = flowQuery(query, 'flows.page')
    const found = store ? await (await this.#hooks.store()).flows({ ...store, limit: limit + 1 }) : []
    const flows = found.slice(0, limit)
    const last = flows.at(-1)
    return { flows: flows.map(flowViewOf), cursor: last && found.length > limit ? flowCursorAfter(last, query) : null }
  }

  /**
   * One flow with its steps: their states, attempts, times, results and errors. Of one that waits, also what
   * `jobs.explain` says. Null: it does not exist, or its retention is over.
   */
  async inspect(id: string): Promise<FlowInspection | null> {
    const flow = await this.#find(id, 'flows.inspect')
    if (!flow) return null
    const { steps } = await this.#look.at(flow)
    const hasResult = isWorkflowKind(flow.kind) && flow.state === 'completed'
    const job = hasResult ? await (await this.#hooks.store()).get(id) : null
    return { ...flowViewOf(flow), result: fromJsonText(job?.result ?? null, null), steps }
  }

  /**
   * Tells what a flow waits for, at which position, and when it goes on. For a flow that waits for a child the words
   * go on with those of the child. Null: it does not exist, or its retention is over.
   */
  async explain(id: string): Promise<FlowExplanation | null> {
    const flow = await this.#find(id, 'flows.explain')
    return flow && this.#look.explain(flow)
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
   * Sends a signal to a running flow of any workflow. If this engine lists the workflow, the payload is checked.
   * The signal is stored before this answers. A second one of the same name and `once` (1 to 255 characters) does
   * nothing.
   * @param to the flow's id, or `{ key, workflow }`
   * @throws {SluiceError} `flow.not_found`, `flow.ended`, `flow.inbox_full`, `input.invalid`, `option.invalid`,
   * `payload.too_large` above 1 MiB
   */
  async signal(
    to: FlowTarget,
    name: string,
    payload: unknown,
    options: { readonly once?: string } = {},
  ): Promise<{ readonly duplicate: boolean }> {
    const { checkOpen, workflows } = this.#hooks
    checkOptions(options, ['once'], 'flows.signal')
    const once = checkOnce(options.once)
    checkFlowName(name, 'flows.signal: the name')
    checkOpen('sent to a flow')
    const { workflow, address } = await this.#addressOf(to)
    const definition = workflows.get(workflow)
    const text = definition ? await definition.signal(name, payload) : toJsonText(payload, `the signal ${name}`)
    return sendSignal(this.#hooks, workflow, address, { signal: name, payload: text, once })
  }

  /**
   * Runs a failed flow of a workflow again: from where it failed, or from a step and all that came after it. Steps that
   * run again pay their limits again. Returns false if it has not failed, or if its key belongs to another running flow.
   * @throws {SluiceError} `flow.not_found`; `flow.step_unknown` if it has not come to that step; `flow.invalid` for a
   * chain, a group or a batch, whose jobs `jobs.retry` runs again
   */
  async retry(id: string, options: { readonly from?: string } = {}): Promise<boolean> {
    checkOptions(options, ['from'], 'flows.retry', { aliases: { step: 'from' } })
    const { from } = options
    if (from !== undefined) checkFlowName(from, 'flows.retry: from')
    const flow = await this.#find(id, 'flows.retry')
    if (!flow) throw missing(id)
    if (!isWorkflowKind(flow.kind))
      throw new SluiceError(
        'flow.invalid',
        `The flow ${id} is a ${flow.kind}. Run its discarded jobs again by jobs.retry, and it goes on.`,
      )
    const answer = await (await this.#hooks.store()).retryFlow(id, from ?? null)
    if (answer === 'missing') throw missing(id)
    if (answer === 'unknown_step')
      throw new SluiceError('flow.step_unknown', `The flow ${id} has not come to a step ${show(from)}.`)
    if (answer === 'retried') this.#hooks.wakeup.notify('work')
    return answer === 'retried'
  }

  /**
   * Cancels a flow, with the children that it waits for. Its waiting jobs end at once, its running ones have their
   * signals aborted, and no callback runs. Returns false if it had already ended.
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

  async #find(id: string, what: string): Promise<FlowRecord | null> {
    checkText(id, `${what}: the id`)
    return (await this.#hooks.store()).getFlow(id)
  }

  async #addressOf(to: FlowTarget): Promise<{ workflow: string; address: string | { key: string } }> {
    if (typeof to === 'string') {
      const flow = await this.#find(to, 'flows.signal')
      if (!flow) throw missing(to)
      if (isWorkflowKind(flow.kind) && flow.name !== null) return { workflow: flow.name, address: to }
      throw new SluiceError('flow.invalid', `The flow ${to} is a ${flow.kind}, which takes no signals.`)
    }
    checkOptions(to, ['key', 'workflow'], 'the address of flows.signal', { aliases: { name: 'workflow' } })
    const { key, workflow } = to
    checkText(key, 'flows.signal: the key')
    if (workflow !== undefined) return { workflow: checkText(workflow, 'flows.signal: the workflow'), address: { key } }
    const { store } = flowQuery({ key, states: ['running'], limit: 2 }, 'flows.list')
    const [flow, other] = store ? await (await this.#hooks.store()).flows(store) : []
    if (other)
      throw new SluiceError(
        'option.invalid',
        `flows.signal: several workflows have a running flow of the key ${show(key)}. Expected { key, workflow }.`,
      )
    if (flow) return { workflow: flow.name ?? '', address: flow.id }
    throw new SluiceError('flow.not_found', `No flow with the key ${show(key)} runs.`)
  }
}

function checkPage(page: { readonly limit?: number; readonly afterNode?: number }): void {
  checkOptions(page, ['limit', 'afterNode'], 'flows.jobs')
  const { afterNode, limit } = page
  if (limit !== undefined && !(typeof limit === 'number' && Number.isInteger(limit) && limit >= 1 && limit <= 1000))
    throw new SluiceError('option.invalid', `flows.jobs: limit is invalid: ${show(limit)}. Expected 1 to 1,000.`)
  if (afterNode !== undefined && !(Number.isInteger(afterNode) && Math.abs(afterNode) <= 1_000_000))
    throw new SluiceError(
      'option.invalid',
      `flows.jobs: afterNode is invalid: ${show(afterNode)}. Expected the node of a job.`,
    )
}

function missing(id: string): SluiceError {
  return new SluiceError('flow.not_found', `The flow ${brief(id)} does not exist. Its retention may be over.`)
}

/** A flow whose jobs carry a trace context. */
function tracedFlow(flow: NewFlow, carried: Carried): NewFlow {
  if (Object.keys(carried).length === 0) return flow
  const traced = <T extends { readonly job: NewJob }>(each: T): T => ({ ...each, job: carrying(each.job, carried) })
  const callbacks = Object.entries(flow.callbacks).map(([name, each]) => [name, traced(each)])
  return { ...flow, nodes: flow.nodes.map(traced), callbacks: Object.fromEntries(callbacks) as NewFlow['callbacks'] }
}
