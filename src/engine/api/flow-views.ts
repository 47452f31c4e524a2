import type { StepRecord } from '../../jobs/flow-memory.ts'
import { fromJsonText, objectIn } from '../../base/json-value.ts'
import { extraOf } from '../../jobs/job-extra.ts'
import { type FlowKind, type FlowRecord, type FlowState, isWorkflowKind, type WorkflowKind } from '../../jobs/flow.ts'
import type { JobError } from '../../jobs/job-error.ts'
import type { JobRecord } from '../../jobs/job.ts'
import type { JobState } from '../../jobs/job-state.ts'
import { DEADLINE_STEP, HOLD_STEP } from '../../jobs/workflow.ts'
import type { FlowChild, FlowJobPlace, FlowSteps } from '../../store/contract/workflows.ts'
import type { JobExplanation } from './job-explanation.ts'

/** The public view of a stored flow. */
export interface FlowView {
  readonly id: string
  readonly kind: FlowKind
  readonly name: string | null
  /** The name of its workflow; null for a chain, a group or a batch. */
  readonly workflow: string | null
  /** At most one running flow of a workflow has it; null: none. */
  readonly key: string | null
  readonly state: FlowState
  /** The number of its jobs so far, without callbacks. */
  readonly total: number
  readonly completed: number
  /** Jobs that were discarded. Jobs cancelled because of them count as cancelled. */
  readonly discarded: number
  readonly cancelled: number
  readonly createdAt: Date
  /** The same instant as `createdAt`. */
  readonly startedAt: Date
  readonly finishedAt: Date | null
  /** Why a flow of a workflow failed. */
  readonly error: JobError | null
  /** The flow that started it, and the step there that its end ends; null: none. */
  readonly parent: { readonly id: string; readonly step: string } | null
  readonly meta: Readonly<Record<string, unknown>>
}

/**
 * The state of a step. `pending`: of a graph's step, until those before it have ended; `waiting`: for a budget, a slot,
 * or the next attempt; `sleeping`: for a time; `awaiting`: for a signal or a child; `skipped`: it has not run, and will
 * not.
 */
export type FlowStepState = 'pending' | 'done' | 'running' | 'waiting' | 'sleeping' | 'awaiting' | 'failed' | 'skipped'

/** Whether a step has ended for good. */
export function isEndedStep({ state }: { readonly state: FlowStepState }): boolean {
  return state === 'done' || state === 'failed' || state === 'skipped'
}

/** A step of a flow; for a chain, a group or a batch one of its jobs. */
export interface FlowStepView {
  /** A step that comes again has a number: `send`, `send#2`. The gate of `hold` is `~hold`. */
  readonly name: string
  readonly state: FlowStepState
  /** Attempts that have begun. */
  readonly attempt: number
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  /** How long it waited for its start, in ms; until now while it waits. Not kept for jobs of plain flows: 0. */
  readonly waitedMs: number
  /** The budget for which it waited longest; of a step that waits, the one that it waits for. */
  readonly waitedFor: { readonly limit: string; readonly key: string } | null
  /** The explanation of its job, as of `jobs.explain`; only while it waits, and of the first 100 such steps of a flow. */
  readonly wait?: JobExplanation
  /** When a sleep, or a bounded wait for a signal, ends; null: there is no such time. */
  readonly until: Date | null
  /** The names of the signals that it awaits. */
  readonly signals?: readonly string[]
  /** The steps that it comes after; only of a graph. */
  readonly after?: readonly string[]
  /** The flow whose end it awaits, or awaited. */
  readonly child?: { readonly id: string; readonly workflow: string; readonly state: FlowState }
  /** Items of a map or an `each` that have yet to end. */
  readonly left?: number
  readonly result: unknown
  readonly error: JobError | null
}

/** The reason why a flow waits, as data and in words. */
export interface FlowExplanation {
  readonly words: string
  /** The steps that wait, sleep or await something. */
  readonly waits: readonly FlowStepView[]
}

/** The state of a flow's job as the state of a step. */
const STATES: Readonly<Record<JobState, FlowStepState>> = {
  scheduled: 'waiting',
  available: 'waiting',
  pending: 'waiting',
  retryable: 'waiting',
  active: 'running',
  completed: 'done',
  discarded: 'failed',
  cancelled: 'skipped',
}

/** The public view of a flow. */
export function flowViewOf(flow: FlowRecord): FlowView {
  const { id, kind, name, key, state, total, completed, discarded, cancelled, error, parent, parentStep } = flow
  const { meta = {} } = extraOf(flow)
  return {
    id,
    kind,
    name,
    workflow: isWorkflowKind(kind) ? name : null,
    key,
    state,
    total,
    completed,
    discarded,
    cancelled,
    createdAt: dateOf(flow.createdUs),
    startedAt: dateOf(flow.createdUs),
    finishedAt: flow.finishedUs === null ? null : dateOf(flow.finishedUs),
    error,
    parent: parent === null || parentStep === null ? null : { id: parent, step: parentStep },
    meta,
  }
}

/** A job of a chain, a group or a batch as a step. */
export function stepOfJob(job: JobRecord, wait: JobExplanation | undefined, nowMs: number): FlowStepView {
  return {
    name: job.task,
    state: STATES[job.state],
    attempt: job.attempt,
    startedAt: job.startedUs === null ? null : dateOf(job.startedUs),
    finishedAt: job.finishedUs === null ? null : dateOf(job.finishedUs),
    until: null,
    result: fromJsonText(job.result, null),
    error: job.error,
    ...waitOf(wait, nowMs, 0, null),
  }
}

/** A step with all that there is of it. */
export interface FoundStep {
  readonly name: string
  readonly state: FlowStepState
  /** Null: it waits for its first run. */
  readonly record: StepRecord | null
  /** Its first job that has not ended; null: none. */
  readonly job: FlowJobPlace | null
  readonly child: FlowChild | null
  readonly signals: readonly string[] | null
  /** Absent: its flow has no graph. */
  readonly after?: readonly string[]
}

/**
 * Finds the steps of a flow: those that it remembers, in their order, then those that wait for their first run. A graph
 * has all its steps from the start, in the order of its definition.
 */
export function findSteps(
  flow: Pick<FlowRecord, 'state'> & { readonly kind: WorkflowKind },
  all: FlowSteps,
): FoundStep[] {
  const { steps = {} } = objectIn<{ readonly steps?: Readonly<Record<string, GraphStep>> }>(all.definition)
  const begun = begunSteps(flow.kind, all)
  const byName = new Map(begun.map((step) => [step.name, step]))
  const whole = Object.entries(steps).map(([name, { after = [] }]): FoundStep => ({
    ...(byName.get(name) ?? { ...NOT_BEGUN, name }),
    after,
  }))
  const found = [...whole, ...begun.filter(({ name }) => !Object.hasOwn(steps, name))]
  if (flow.state === 'running') return found
  // A step that waited when its flow ended goes on no more; one that runs has yet to end.
  return found.map((step) => (step.state === 'running' || isEndedStep(step) ? step : { ...step, state: 'skipped' }))
}

/** A step in the normal form of a graph, as much of it as is shown. */
interface GraphStep {
  readonly after?: readonly string[]
}

const NOT_BEGUN = { state: 'pending', record: null, job: null, child: null, signals: null } as const

function begunSteps(kind: WorkflowKind, { steps, jobs, children }: FlowSteps): FoundStep[] {
  const places = new Map<string, FlowJobPlace[]>()
  for (const job of jobs) {
    const name = stepOf(kind, job)
    if (name !== null) places.set(name, [...(places.get(name) ?? []), job])
  }
  const awaited = jobs.find(({ node }) => node === 0)?.signals ?? []
  const found = steps
    .filter(({ name }) => isShown(name))
    .map((record): FoundStep => {
      const own = places.get(record.name) ?? []
      places.delete(record.name)
      const job = own.find(({ state }) => state === 'active') ?? own[0] ?? null
      const child = children.findLast(({ step }) => step === record.name) ?? null
      const state = stateOf(record, job, child)
      const signals = state === 'awaiting' && child === null ? signalsOf(record, awaited) : null
      return { name: record.name, state, record, job, child, signals }
    })
  const fresh = [...places].map(([name, [job = null]]): FoundStep => ({
    name,
    state: job === null ? 'waiting' : STATES[job.state],
    record: null,
    job,
    child: null,
    signals: null,
  }))
  return [...found, ...fresh]
}

/** The public view of a step. @param wait of its job, if it waits */
export function stepViewOf(found: FoundStep, wait: JobExplanation | undefined, nowMs: number): FlowStepView {
  const { name, state, record, job, child, signals, after } = found
  const isEnded = isEndedStep(found)
  const startedUs = isEnded ? (record?.startedUs ?? null) : (job?.startedUs ?? record?.startedUs ?? null)
  const dueUs = state === 'sleeping' || state === 'awaiting' ? (record?.dueUs ?? null) : null
  const left = isEnded ? null : (record?.left ?? null)
  return {
    name,
    state,
    attempt: isEnded ? (record?.attempt ?? 0) : Math.max(job?.attempt ?? 0, record?.attempt ?? 0),
    startedAt: startedUs === null ? null : dateOf(startedUs),
    finishedAt: typeof record?.finishedUs === 'number' ? dateOf(record.finishedUs) : null,
    until: dueUs === null ? null : dateOf(dueUs),
    ...(signals && { signals }),
    ...(after && { after }),
    ...(child && { child: { id: child.id, workflow: child.name, state: child.state } }),
    ...(left !== null && { left }),
    result: fromJsonText(record?.result ?? null, null),
    error: record?.error ?? null,
    ...waitOf(wait, nowMs, record?.waitedUs ?? 0, record?.waitedFor ?? null),
  }
}

function waitOf(
  wait: JobExplanation | undefined,
  nowMs: number,
  waitedUs: number,
  waitedFor: StepRecord['waitedFor'],
): Pick<FlowStepView, 'waitedMs' | 'waitedFor' | 'wait'> {
  if (!wait) return { waitedMs: waitedUs / 1000, waitedFor }
  const since = wait.job.state === 'available' ? wait.since : null
  return {
    waitedMs: since === null ? waitedUs / 1000 : Math.max(0, nowMs - since.getTime()),
    waitedFor: wait.waitsOn ? { limit: wait.waitsOn.limit, key: wait.waitsOn.key ?? '' } : waitedFor,
    wait,
  }
}

/** The name of the step of a job, as records have it; null: a plain entry, or none that is shown. */
function stepOf(kind: WorkflowKind, { step }: FlowJobPlace): string | null {
  if (step === null || !isShown(step)) return null
  return kind === 'machine' ? step.replace(/\*$/, '') : step
}

/** Names that begin with `~` are notes of the engine; only the gate says something to others. */
function isShown(name: string): boolean {
  return name === HOLD_STEP || (!name.startsWith('~') && name !== DEADLINE_STEP) || name.startsWith('~undo:')
}

function stateOf(record: StepRecord, job: FlowJobPlace | null, child: FlowChild | null): FlowStepState {
  const { state } = record
  if (state === 'done' || state === 'failed' || state === 'skipped') return state
  if (job?.state === 'active') return 'running'
  // A parked job is pending, or retryable if a time wakes it too.
  const isParked = !job || job.state === 'pending' || (job.state === 'retryable' && state !== 'retrying')
  if (state === 'sleeping') return 'sleeping'
  if (state === 'awaiting') return isParked ? 'awaiting' : 'waiting'
  return !job && child ? 'awaiting' : 'waiting'
}

function signalsOf({ name, input }: StepRecord, awaited: readonly string[]): readonly string[] {
  const { signals } = objectIn<{ readonly signals: readonly string[] }>(input)
  if (signals) return signals
  const own = name.replace(/#\d+$/, '')
  return awaited.includes(own) ? [own] : awaited
}

/** Store time as a date. It is close to the wall clock, unless the clock was stepped since boot. */
function dateOf(us: number): Date {
  return new Date(us / 1000)
}
