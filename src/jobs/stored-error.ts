import type { JsonValue } from '../base/json-value.ts'
import { beginningOf } from '../base/text.ts'
import { asError, codeOf } from '../base/thrown.ts'
import type { FailedStep, JobError } from './job-error.ts'

const LONGEST_STACK = 4_000
const LONGEST_MESSAGE = 1_000
const MOST_CAUSES = 5

/** One error of a chain, as it is stored. */
export interface StoredCause {
  /** Absent: it has none. */
  readonly code?: string
  readonly message: string
}

/**
 * The stack of a failed run and the errors behind its error, as `details` of the stored error: at most 4,000 characters
 * of the stack and 5 causes. Never throws.
 */
export function failureDetails(error: Error): { readonly [name: string]: JsonValue } {
  const causes: Record<string, JsonValue>[] = []
  const seen = new Set<unknown>([error])
  for (let next = causeOf(error); next !== undefined && causes.length < MOST_CAUSES; next = causeOf(next)) {
    if (seen.has(next)) break
    seen.add(next)
    const code = codeOf(next)
    const message = beginningOf(`${next.name}: ${next.message}`, LONGEST_MESSAGE)
    causes.push({ ...(code !== null && { code }), message })
  }
  const { stack } = error
  return {
    ...(stack !== undefined && stack !== '' && { stack: beginningOf(stack, LONGEST_STACK) }),
    ...(causes.length > 0 && { causes }),
  }
}

function causeOf(error: Error): Error | undefined {
  try {
    const { cause } = error
    return cause === undefined || cause === null ? undefined : asError(cause)
  } catch {
    return undefined
  }
}

/** The stack and the causes of a stored error; what is unreadable is left out. */
export function detailsOf({ details }: JobError): { readonly stack?: string; readonly causes: readonly StoredCause[] } {
  const { stack, causes } = details ?? {}
  const list = Array.isArray(causes) ? (causes as readonly unknown[]) : []
  const isCause = (each: unknown): each is StoredCause =>
    typeof each === 'object' && each !== null && 'message' in each && typeof each.message === 'string'
  return { ...(typeof stack === 'string' && { stack }), causes: list.filter(isCause) }
}

/** A stored error as an error again, with its code, its stack and its causes. */
export function errorFrom(stored: JobError): Error {
  const { stack, causes } = detailsOf(stored)
  let cause: Error | undefined
  for (const each of causes.toReversed()) cause = made(each, cause)
  const error = made(stored, cause)
  if (stack !== undefined) error.stack = stack
  return error
}

function made({ code, message }: StoredCause, cause: Error | undefined): Error {
  const error = new Error(message, cause && { cause })
  return code === undefined ? error : Object.assign(error, { code })
}

/** The step by which a flow failed; null: no step did. @param error of the flow */
export function failedStepOf(error: JobError | null): FailedStep | null {
  const { step, attempt } = error?.details ?? {}
  return typeof step === 'string' && typeof attempt === 'number' ? { step, attempt } : null
}
