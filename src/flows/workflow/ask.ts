import type { StepRecord } from '../../jobs/flow-memory.ts'
import type { NewWorkflow, SideJob } from '../../jobs/workflow.ts'
import type { UseSpec } from '../../policy/limits/define.ts'
import type { StepTerms } from '../shared/arrivals.ts'
import type { StepContext } from '../shared/step-context.ts'

/** The thing that a body waits for by one of its steps. */
export type Want =
  | StepWant
  /** A task, or one for each item of a map. */
  | { readonly kind: 'jobs'; readonly jobs: readonly Pick<SideJob, 'job' | 'delayUs'>[]; readonly isMap: boolean }
  | { readonly kind: 'child'; readonly flow: NewWorkflow }
  | SleepWant
  | SignalWant
  /** Side jobs or a child that have yet to end. */
  | { readonly kind: 'open' }
  /** An answer that is known at once. JSON text. */
  | { readonly kind: 'done'; readonly result: string }
  /** A flow that outlives this one; its id is the answer. */
  | { readonly kind: 'detach'; readonly flow: NewWorkflow }

/** A step of the body's own code. */
export interface StepWant {
  readonly kind: 'step'
  readonly terms: StepTerms
  /** Its limits as the code lists them. */
  readonly specs: readonly UseSpec<never>[]
  readonly timeoutMs: number | null
  readonly code: (context: StepContext) => unknown
  /** It needs no budget, and runs in the slot of the entry. */
  readonly inPlace: boolean
  /** Attempts so far. */
  readonly attempt: number
  /** From now on. */
  readonly delayUs: number | null
  /** Of an attempt that failed in this entry. */
  readonly retrying: StepRecord | null
}

/** A time. */
export interface SleepWant {
  readonly kind: 'sleep'
  /** Store clock. */
  readonly dueUs: number
  /** By the wall clock; null: by the store's. */
  readonly untilMs: number | null
}

/** A signal, within a time or without one. */
export interface SignalWant {
  readonly kind: 'signal'
  readonly signal: string
  /** Store clock; null: it waits without bound. */
  readonly dueUs: number | null
}

/** A step that the body has asked for and that was not answered. */
export interface Ask {
  readonly name: string
  readonly want: Want
  /** Answers the body. */
  readonly answer: (record: StepRecord) => void
}

/** The want of a step that is remembered and has yet to end. */
export function resumed(want: Want, known: StepRecord, nowUs: number): Want {
  const { attempt, dueUs, input, state } = known
  if (want.kind === 'sleep' && state === 'sleeping')
    return { ...want, dueUs: dueUs ?? nowUs, untilMs: input === null ? null : (JSON.parse(input) as number) }
  if (want.kind === 'signal' && state === 'awaiting') return { ...want, dueUs }
  if (want.kind !== 'step' || state !== 'retrying') return want
  return { ...want, inPlace: false, attempt, delayUs: Math.max(0, (dueUs ?? nowUs) - nowUs), retrying: known }
}
