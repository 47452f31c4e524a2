import { isStorable } from '../../base/text.ts'
import type { JobError } from '../../jobs/job-error.ts'
import { type BucketState, charge, newBucket } from '../../policy/limits/bucket.ts'
import { decodeBucket } from '../../policy/limits/bucket-codec.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { decodeScanCursor } from '../../policy/admission/scan-cursor.ts'
import type { Failure } from '../contract/remote-jobs.ts'

/**
 * Unreadable rows: an earlier version wrote them, or a person changed them. A claim reads rows that many jobs need, so
 * one such row would fail every claim. After a failed claim the store finds these rows, sets them aside, and reports
 * them.
 */

/** Whether a text is a list of whole numbers, as those of buckets. */
export function areNumbers(text: string): boolean {
  return numbersIn(text) !== null
}

/** The whole numbers in a list of them; null: the text is not such a list. */
export function numbersIn(text: string): number[] | null {
  const values = parsed(text)
  return Array.isArray(values) && values.every((each) => Number.isSafeInteger(each)) ? (values as number[]) : null
}

/** Whether a text is an object: the form of a pending job, the bounds of a queue or the pace of ageing. */
export function isObject(text: string): boolean {
  const value = parsed(text)
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a text is a list, as the plan of a pending job on PostgreSQL. */
export function isList(text: string): boolean {
  return Array.isArray(parsed(text))
}

/** Whether a stored schedule is readable. */
export function isSchedule(text: string): boolean {
  const spec = parsed(text) as { readonly recurrence?: unknown; readonly job?: unknown } | null | undefined
  return typeof spec?.recurrence === 'object' && typeof spec.job === 'object'
}

/** The error of a stored run, or an error that says it is unreadable. */
export function errorOf(text: string): JobError {
  const error = parsed(text) as JobError | null | undefined
  if (typeof error?.code === 'string' && typeof error.message === 'string') return error
  return { code: 'job.unreadable', message: 'The stored error is unreadable.' }
}

/** The failures of a job; none if they are unreadable. */
export function failuresOf(text: string): Failure[] {
  const failures = parsed(text)
  return Array.isArray(failures) ? (failures as Failure[]) : []
}

/** The weights of a job, by its buckets; null: unreadable. */
export function weightsOf(text: string): number[] | null {
  const values = parsed(text)
  const fine = Array.isArray(values) && values.every((each) => Number.isSafeInteger(each) && (each as number) >= 1)
  return fine ? (values as number[]) : null
}

/** The buckets that a job needs, in its order; none if they are unreadable. */
export function bucketsIn(text: string): { limit: string; key: string }[] {
  return areUses(text) ? (JSON.parse(text) as [string, string][]).map(([limit, key]) => ({ limit, key })) : []
}

/** Whether every store can read the buckets that a job needs. */
export function areUses(text: string): boolean {
  const uses = parsed(text)
  return (
    Array.isArray(uses) &&
    uses.every(
      (use) =>
        Array.isArray(use) && use.length === 2 && use.every((name) => typeof name === 'string' && isStorable(name)),
    )
  )
}

/** Whether a lane's stored scan cursor is readable. */
export function isSieve(text: string): boolean {
  return readable(() => decodeScanCursor(text)) && Array.isArray(parsed(text))
}

/** Whether the state of a bucket is readable. */
export function isBucketState(text: string): boolean {
  return readable(() => decodeBucket(text))
}

/** A bucket whose state was lost, with nothing left: its past grants are unknown, and no budget may be exceeded. */
export function spentBucket(policy: LimitPolicy | null, nowUs: number): BucketState | null {
  if (!policy) return null
  const state = newBucket(policy, nowUs)
  const { rule } = policy
  if (rule) charge(policy, state, nowUs, rule.kind === 'rate' ? rule.burst : rule.kind === 'spacing' ? 1 : rule.max)
  return state
}

/** A stored policy; null: unreadable. The limit then counts as not defined, and its jobs wait. */
export function policyOf(text: string): LimitPolicy | null {
  const policy = parsed(text)
  const fine = typeof policy === 'object' && policy !== null && 'rule' in policy && 'concurrency' in policy
  return fine ? (policy as unknown as LimitPolicy) : null
}

/** The JSON of a row; undefined: it is not JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function readable(read: () => unknown): boolean {
  try {
    read()
    return true
  } catch {
    return false
  }
}
