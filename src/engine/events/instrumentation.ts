import { extraOf } from '../../jobs/job-extra.ts'
import type { RunEnd } from './run-end.ts'

/** What a job carries from its enqueue to its runs, as a trace context does: header names and values. */
export type Carried = Readonly<Record<string, string>>

/** One call of `enqueue` or `enqueueMany`. */
export interface EnqueueCall {
  readonly task: string
  readonly queue: string
  /** Jobs in it. */
  readonly count: number
}

/** One run of one job. */
export interface RunCall {
  readonly id: string
  readonly task: string
  readonly queue: string
  /** 1 on the first run. */
  readonly attempt: number
  /** Of the enqueue; empty when nobody stood around that. */
  readonly carried: Carried
}

/** What stands around the calls of an engine to trace them. It has to pass on what it is given, and must not throw. */
export interface Instrumentation {
  /** Around an enqueue: `store` stores the jobs, with what they are to carry. */
  enqueue<T extends { readonly id: string }>(call: EnqueueCall, store: (carried: Carried) => Promise<T[]>): Promise<T[]>
  /** Around a run, from before the handler is called until it has ended, run out of time, or was ended from outside. */
  run(call: RunCall, work: () => Promise<RunEnd>): Promise<RunEnd>
}

const LONGEST = 8192

/** What a stored job carries; of what is no such thing, nothing. */
export function carriedBy(extra: string | null): Carried {
  const { trace } = extraOf({ extra })
  if (typeof trace !== 'object' || trace === null) return {}
  return Object.fromEntries(Object.entries(trace).filter(([, value]) => typeof value === 'string'))
}

/** What is stored of it: nothing where there is nothing, or absurdly much of it. */
export function toCarry(carried: Carried): Carried | null {
  const length = Object.entries(carried).reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  return length === 0 || length > LONGEST ? null : carried
}
