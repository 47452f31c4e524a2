import { SluiceError } from '../../base/errors.ts'
import { type FlowRecord, isWorkflowKind } from '../../jobs/flow.ts'
import type { FlowJobPlace, FlowSteps } from '../../store/contract/workflows.ts'
import {
  type FlowExplanation,
  type FlowStepView,
  flowViewOf,
  findSteps,
  isEndedStep,
  type FoundStep,
  stepOfJob,
  stepViewOf,
} from './flow-views.ts'
import { flowInWords } from './flow-words.ts'
import type { JobExplanation } from './job-explanation.ts'
import { JobsApi } from './jobs.ts'

/** Steps that wait and are explained. */
const EXPLAINED_AT_MOST = 100
/** Explanations that are asked for at a time. */
const AT_ONCE = 8
/** Children that words go on with, and the levels below. */
const CHILDREN_TOLD = 3
const DEEPEST = 4
const JOBS_SHOWN = 1000

type Hooks = ConstructorParameters<typeof JobsApi>[0]

/** A flow's steps, and its own job if it waits for none of them. */
interface Seen {
  readonly steps: readonly FlowStepView[]
  readonly entry: JobExplanation | null
  readonly isEntered: boolean
}

/** Looks at the steps of flows. */
export class FlowLook {
  readonly #store: Hooks['store']
  readonly #jobs: JobsApi

  constructor(hooks: Hooks) {
    this.#store = hooks.store
    this.#jobs = new JobsApi(hooks)
  }

  /** The steps of a flow, each that waits with its explanation. */
  async at(flow: FlowRecord): Promise<Seen> {
    const store = await this.#store()
    const found = isWorkflowKind(flow.kind) ? await store.flowSteps(flow.id) : null
    if (!isWorkflowKind(flow.kind) || !found) return this.#plain(flow)
    const steps = findSteps({ kind: flow.kind, state: flow.state }, found)
    const main = mainOf(flow, found, steps)
    const waiting = steps.flatMap(({ state, job }) => (state === 'waiting' && job ? [job.id] : []))
    const waits = await this.#explained(main?.state === 'active' || !main ? waiting : [main.id, ...waiting])
    const nowMs = store.nowUs() / 1000
    return {
      steps: steps.map((step) => stepViewOf(step, step.job ? waits.get(step.job.id) : undefined, nowMs)),
      entry: (main && waits.get(main.id)) ?? null,
      isEntered: main?.state === 'active',
    }
  }

  /** The wait of a flow in words, and the steps that wait. */
  async explain(flow: FlowRecord, level = 0): Promise<FlowExplanation> {
    const { steps, entry, isEntered } = await this.at(flow)
    const isRunning = flow.state === 'running'
    const open = isRunning ? steps.filter((step) => step.state !== 'pending' && !isEndedStep(step)) : []
    const children = new Map<string, string>()
    for (const { child } of open) {
      if (!child || child.state !== 'running' || level >= DEEPEST || children.size >= CHILDREN_TOLD) continue
      const record = await (await this.#store()).getFlow(child.id)
      if (record) children.set(child.id, `Of the child: ${(await this.explain(record, level + 1)).words}`)
    }
    const words = flowInWords({ flow: flowViewOf(flow), open, entry, isEntered, children })
    return { words, waits: open.filter(({ state }) => state !== 'running') }
  }

  /** The jobs of a chain, a group or a batch as its steps. */
  async #plain({ id }: FlowRecord): Promise<Seen> {
    const store = await this.#store()
    const jobs = await store.list({ flow: id, limit: JOBS_SHOWN })
    const waiting = jobs.filter(({ state }) => state === 'available' || state === 'scheduled' || state === 'retryable')
    const waits = await this.#explained(waiting.map((job) => job.id))
    const nowMs = store.nowUs() / 1000
    return { steps: jobs.map((job) => stepOfJob(job, waits.get(job.id), nowMs)), entry: null, isEntered: false }
  }

  async #explained(ids: readonly string[]): Promise<Map<string, JobExplanation>> {
    const found = new Map<string, JobExplanation>()
    const left = ids.slice(0, EXPLAINED_AT_MOST)
    while (left.length > 0)
      for (const each of await Promise.all(left.splice(0, AT_ONCE).map((id) => this.#explainedJob(id))))
        if (each) found.set(each.job.id, each)
    return found
  }

  /** Null: it has gone meanwhile, as a job may. */
  async #explainedJob(id: string): Promise<JobExplanation | null> {
    try {
      return await this.#jobs.explain(id)
    } catch (error) {
      if (error instanceof SluiceError && error.code === 'job.not_found') return null
      throw error
    }
  }
}

/** The flow's own job, if it runs or waits outside the steps that are shown. */
function mainOf({ state }: FlowRecord, { jobs }: FlowSteps, steps: readonly FoundStep[]): FlowJobPlace | null {
  const main = jobs.find(({ node }) => node === 0)
  if (state !== 'running' || !main || main.state === 'pending' || main.signals.length > 0) return null
  if (steps.some(({ job, state: step }) => job?.id === main.id || (step === 'sleeping' && main.state === 'retryable')))
    return null
  return main
}
