import type { FlowMemory, StepRecord } from '../../../src/jobs/flow-memory.ts'
import { afterEach, beforeEach } from 'vitest'
import type { FlowRecord, WorkflowKind } from '../../../src/jobs/flow.ts'
import type { GrantedJob } from '../../../src/jobs/job.ts'
import type { SettleResult } from '../../../src/jobs/settlement.ts'
import type { Arrival, FlowMove, NewWorkflow, SideJob } from '../../../src/jobs/workflow.ts'
import type { FlowSteps, SignalAnswer, StartedWorkflow } from '../../../src/store/contract/workflows.ts'
import type { StoreBackend } from './backend.ts'
import { type ClaimSpec, type JobSpec, type Outcome, StoreHarness, usesOf } from './store-harness.ts'

/** The fields of a workflow flow that the suites name. */
export interface WorkflowSpec extends JobSpec {
  readonly kind?: WorkflowKind
  readonly key?: string
  readonly onConflict?: 'join' | 'reject'
  readonly step?: string
  readonly deadlineMs?: number
  readonly definition?: string
}

/** The fields of an arrival that the suites name. */
export interface ArrivalSpec extends JobSpec {
  readonly attempt?: number
  readonly delayMs?: number
}

type Park = Extract<FlowMove['then'], { kind: 'park' }>

/** A place to wait at. */
export function arrival(step: string | null, spec: ArrivalSpec = {}): Arrival {
  return {
    step,
    uses: usesOf(spec.limits ?? []),
    fairKey: spec.fairKey ?? null,
    share: spec.share ?? 1,
    queue: spec.queue ?? 'q',
    priority: spec.priority ?? 0,
    maxAttempts: spec.attempts ?? 3,
    attempt: spec.attempt ?? 0,
    delayUs: spec.delayMs === undefined ? null : spec.delayMs * 1000,
    runAtMs: spec.runAtMs ?? null,
  }
}

/** A step that has ended, or has another state. */
export function record(name: string, fields: Partial<StepRecord> = {}): StepRecord {
  return {
    name,
    state: 'done',
    result: null,
    error: null,
    attempt: 1,
    startedUs: null,
    finishedUs: null,
    waitedUs: 0,
    waitedFor: null,
    dueUs: null,
    input: null,
    ...fields,
  }
}

/** Moves on to a step. */
export function go(step: string | null, spec: ArrivalSpec = {}, place: 'keep' | 'new' = 'keep'): FlowMove['then'] {
  return { kind: 'go', arrival: arrival(step, spec), place }
}

/** Waits, and wakes as a plain entry. */
export function park(spec: Partial<Park> = {}): FlowMove['then'] {
  return { kind: 'park', seen: 0, signals: [], ends: 'none', dueUs: null, arrival: arrival(null), ...spec }
}

const STAY: FlowMove['then'] = { kind: 'stay' }

/** A store with workflow flows by their names. Runs go by the job's task, behind a slash the step. */
export class WorkflowHarness {
  readonly base: StoreHarness
  readonly #ids = new Map<string, string>()
  readonly #runs = new Map<string, GrantedJob>()

  constructor(base: StoreHarness) {
    this.base = base
  }

  id(name: string): string {
    const id = this.#ids.get(name)
    if (id === undefined) throw new RangeError(`There is no flow ${name}`)
    return id
  }

  newFlow(name: string, spec: WorkflowSpec = {}): NewWorkflow {
    const { kind = 'workflow', key = null, onConflict = 'join', step = null, deadlineMs, definition = null } = spec
    return {
      kind,
      name,
      key,
      onConflict,
      job: this.base.job(name, spec),
      step,
      delayUs: spec.delayUs ?? null,
      deadline: deadlineMs === undefined ? null : this.side('~deadline', { delayUs: deadlineMs * 1000 }, name),
      definition,
      hash: null,
      extra: null,
    }
  }

  /** Starts a flow under a name of the suite, which is its task too unless another one is given. */
  async begin(name: string, spec: WorkflowSpec = {}, task: string = name): Promise<StartedWorkflow> {
    const flow = this.newFlow(task, spec)
    const [started] = await this.base.store.startWorkflows([flow])
    if (started?.kind === 'created') this.#ids.set(name, started.id)
    return started!
  }

  side(step: string, spec: ArrivalSpec = {}, task: string = step, item: number | null = null): SideJob {
    const job = this.base.job(task, spec)
    return { job, step, item, attempt: spec.attempt ?? 0, delayUs: spec.delayUs ?? null }
  }

  /** The runs that one claim starts. */
  async start(spec: ClaimSpec = {}): Promise<string[]> {
    const { jobs } = await this.base.claim(spec)
    return jobs.map((job) => {
      const { step = null, item = null } = job.flow?.workflow ?? {}
      const name = [job.task, ...(step === null ? [] : [step]), ...(item === null ? [] : [item])].join('/')
      this.#runs.set(name, job)
      return name
    })
  }

  run(name: string): GrantedJob {
    const run = this.#runs.get(name)
    if (!run) throw new RangeError(`${name} was never claimed`)
    return run
  }

  /** Settles a run by a move; what is not given is empty. */
  async next(name: string, move: Partial<FlowMove>, again = false, run: GrantedJob = this.run(name)): Promise<string> {
    const whole: FlowMove = {
      steps: [],
      consumed: [],
      spawn: [],
      children: [],
      drop: [],
      state: null,
      again: null,
      keepPermits: false,
      then: STAY,
      ...move,
    }
    const { seq, id, attempt, startedUs, flow } = run
    const moves = flow?.workflow?.moves ?? 0
    const settled = await this.base.store.settle(
      this.base.worker,
      { kind: 'next', seq, id, attempt, startedUs, moves, move: whole },
      again,
    )
    return settled.kind === 'lost' ? 'lost' : settled.state
  }

  /** Settles a run plainly. */
  settle(name: string, what: Outcome = { kind: 'complete', result: null }): Promise<SettleResult> {
    const { seq, attempt, startedUs, flow } = this.run(name)
    const moves = flow?.workflow?.moves
    return this.base.store.settle(this.base.worker, {
      seq,
      attempt,
      startedUs,
      ...(moves !== undefined && { moves }),
      ...what,
    })
  }

  async memory(name: string): Promise<FlowMemory> {
    const memory = await this.base.store.enterFlow(this.run(name).seq)
    if (!memory) throw new RangeError(`The flow of ${name} is gone`)
    return memory
  }

  async flow(name: string): Promise<FlowRecord> {
    return this.base.flowOf(this.id(name))
  }

  async state(...names: string[]): Promise<string[]> {
    return Promise.all(names.map(async (name) => (await this.flow(name)).state))
  }

  async shown(name: string): Promise<FlowSteps> {
    const steps = await this.base.store.flowSteps(this.id(name))
    if (!steps) throw new RangeError(`The flow ${name} is gone`)
    return steps
  }

  /** `name:state` of each step, in order. */
  async steps(name: string): Promise<string[]> {
    return (await this.shown(name)).steps.map((step) => `${step.name}:${step.state}`)
  }

  signal(name: string, signal: string, payload = 'null', once: string | null = null): Promise<SignalAnswer> {
    return this.base.store.signalFlow({ id: this.id(name) }, signal, payload, once)
  }
}

/** Gives every test of the surrounding block a harness of its own. */
export function eachWorkflowHarness(backend: StoreBackend): () => WorkflowHarness {
  let harness: WorkflowHarness
  beforeEach(async () => {
    harness = new WorkflowHarness(await StoreHarness.open(backend))
  })
  afterEach(() => harness.base.store.close())
  return () => harness
}
