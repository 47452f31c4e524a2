import type { StepEnd } from '../define/flow-entry.ts'
import { extraOf } from '../../jobs/job-extra.ts'

/** Trace context that a job carries from its enqueue to its runs: header names and values. */
export type Carried = Readonly<Record<string, string>>

/** One call of `enqueue` or `enqueueMany`. */
export interface EnqueueCall {
  readonly task: string
  readonly queue: string
  /** The number of its jobs. */
  readonly count: number
}

/** One run of one job. */
export interface RunCall {
  readonly id: string
  readonly task: string
  readonly queue: string
  /** 1 on the first run. */
  readonly attempt: number
  /** The trace context of the enqueue; empty if the enqueue had none. */
  readonly carried: Carried
}

/** One run of the code of one step of a flow. */
export interface StepCall {
  /** The flow's id. */
  readonly flow: string
  readonly workflow: string
  readonly step: string
  /** 1 on the first run. */
  readonly attempt: number
  /** The trace context of the flow's start; empty if the start had none. */
  readonly carried: Carried
}

/** A wrapper around the calls of an engine, for tracing. It must pass on their results, and must not throw. */
export interface Instrumentation {
  /** Wraps an enqueue. `store` stores the jobs with their trace context. */
  enqueue<T extends { readonly id: string }>(call: EnqueueCall, store: (carried: Carried) => Promise<T[]>): Promise<T[]>
  /** Wraps a run, from before the handler's call until the handler ends, times out, or is aborted. */
  run(call: RunCall, work: () => Promise<RunEnd>): Promise<RunEnd>
  /** Wraps the code of a step, within the run of its job. A step that is a task is a run as any other. */
  step?(call: StepCall, work: () => Promise<StepEnd>): Promise<StepEnd>
}

const LONGEST = 8192

/** Trace context stored with the job; empty if it has none. */
export function carriedBy(extra: string | null): Carried {
  const { trace } = extraOf({ extra })
  if (typeof trace !== 'object' || trace === null) return {}
  return Object.fromEntries(Object.entries(trace).filter(([, value]) => typeof value === 'string'))
}

/** A job with a trace context. Its own stays. */
export function carrying<J extends { readonly extra: string | null }>(job: J, carried: Carried): J {
  const trace = toCarry(carried)
  const extra = extraOf(job)
  return trace === null || extra.trace ? job : { ...job, extra: JSON.stringify({ ...extra, trace }) }
}

/** Calls `wrap` with work that runs once: the instrumentation around it may fail, and the work still ends by itself. */
export function wrapped<T>(work: () => Promise<T>, wrap: (work: () => Promise<T>) => Promise<T>): Promise<T> {
  let own: Promise<T> | null = null
  const once = (): Promise<T> => (own ??= work())
  try {
    return wrap(once).catch(once)
  } catch {
    return once()
  }
}

/** The trace context to store; null if it is empty or too large. */
export function toCarry(carried: Carried): Carried | null {
  const length = Object.entries(carried).reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  return length === 0 || length > LONGEST ? null : carried
}

/** The end of a run, before any write. */
export type RunEnd =
  | { readonly kind: 'returned'; readonly value: unknown }
  /** `after`: the engine had already aborted it. */
  | { readonly kind: 'threw'; readonly error: Error; readonly after: EndReason | null }
  /** Aborted: cancelled, lease lost, or worker stopped. */
  | { readonly kind: 'ended'; readonly by: EndReason }

/** The cause of an abort. */
export type EndReason = 'cancel' | 'lease' | 'stop'
