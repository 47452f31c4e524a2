import { createHash } from 'node:crypto'
import type { JsonValue } from '../../base/json-value.ts'

/** Stands where a builder has a function: the form says no more of it. */
export interface InCode {
  readonly code: true
}

/** The value of a form that stands for code. */
export const IN_CODE: InCode = Object.freeze({ code: true })

/** Whether a part of a form stands for code. */
export function isInCode(value: unknown): value is InCode {
  return typeof value === 'object' && value !== null && (value as { code?: unknown }).code === true
}

/** One limit of a step. */
export interface LimitForm {
  readonly limit: string
  /** The path of the key; absent: one budget for all, or that of `key`. */
  readonly by?: string | InCode
  /** One key for all flows. */
  readonly key?: string
  /** Units, or the path of a number of units; absent: 1. */
  readonly weight?: number | string | InCode
}

/** Compares the value at a path; a step whose condition does not hold is skipped. */
export interface Condition<P extends string = string> {
  readonly path: P
  /** `exists` takes no value: there is one, and it is not null. `in` takes a list. */
  readonly op: 'eq' | 'ne' | 'gt' | 'gte' | 'lt' | 'lte' | 'in' | 'exists'
  readonly value?: JsonValue
}

/** Retry options with all defaults filled in; times in ms. */
export interface RetryForm {
  readonly attempts: number
  readonly backoff: 'exponential' | 'fixed' | 'linear' | 'polynomial' | 'none'
  readonly initial: number
  readonly max: number
  readonly factor: number
  readonly jitter: boolean
}

/** How a step or its undoing runs. */
export interface TermsForm {
  readonly limits?: readonly LimitForm[]
  readonly retry?: RetryForm
  /** Milliseconds for one attempt. */
  readonly timeout?: number
  readonly priority?: number
  readonly queue?: string
}

/** The work of a step: exactly one of these. */
export interface ActionForm {
  /** A task by name. */
  readonly task?: string
  /** A function of the builder, or a task named `graph/step` that any worker may run. */
  readonly code?: true
  /** Another workflow, machine or graph by name. */
  readonly child?: string
  /** Milliseconds, or the path of an instant. */
  readonly sleep?: number | InCode | { readonly $ref: string }
  /** The name of a signal. */
  readonly signal?: string
  /** JSON in which `{ "$ref": path }` stands for a value; absent: all that the step sees. */
  readonly input?: JsonValue | InCode
}

/** A step in normal form. */
export interface StepForm extends ActionForm, TermsForm {
  /** Sorted, each once. */
  readonly after: readonly string[]
  readonly when?: Condition | InCode
  /** The path of a list: the step runs once for each of its items. */
  readonly each?: string | InCode
  /** Items that run at once, at most; absent: all. */
  readonly at_once?: number
  /** Of a signal: milliseconds until it is given up. */
  readonly within?: number
  /** Absent: `stop`. */
  readonly on_failure?: 'continue'
  readonly undo?: TermsForm & Pick<ActionForm, 'task' | 'code' | 'input'>
}

/** A graph in normal form: what a flow keeps, and what the hash is of. */
export interface GraphForm {
  readonly name: string
  /** The path of the key. */
  readonly key?: string | InCode
  readonly hold?: readonly LimitForm[]
  /** Absent: `finish`. */
  readonly on_failure?: 'fast'
  /** Milliseconds for the whole flow. */
  readonly timeout?: number
  /** Absent: `default`. */
  readonly queue?: string
  readonly steps: Readonly<Record<string, StepForm>>
  /** Absent: the results of the steps that no other comes after, by name. */
  readonly output?: JsonValue | InCode
}

/** The sha-256 of a form, as hexadecimal text. The order of names in objects, and so that of steps, does not count. */
export function hashOf(form: GraphForm): string {
  return createHash('sha256').update(canonical(form)).digest('hex')
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(',')}}`
}
