import { durationMs, type Duration } from '../../base/duration.ts'
import { checkPriority } from '../../base/priority.ts'
import { retryPolicy, type RetryOptions } from '../../jobs/retry-policy.ts'
import { checkQueue } from '../../engine/define/call-options.ts'
import { isName } from '../../base/text.ts'
import { checkUnits } from '../../policy/limits/define.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { isPath } from '../../policy/limits/partition-key.ts'
import { capacityOf } from '../../policy/rules/rule-state.ts'
import type { Faults, Fields } from './faults.ts'
import { IN_CODE, isInCode, type InCode, type LimitForm, type RetryForm, type TermsForm } from './form.ts'

/** The fields of a step that say how it runs. */
export const TERMS = ['limits', 'retry', 'timeout', 'priority', 'queue'] as const

/** The facts that a reader knows beside a definition. */
export interface Reading {
  readonly faults: Faults
  /** The policy of a limit; null: there is none of this name; undefined: unknown. */
  readonly policy: (limit: string) => LimitPolicy | null | undefined
  /** Checks a path by what is seen at its place. */
  readonly seenPath: (value: string, path: string) => void
}

/** Reads how a step runs. */
export function readTerms(reading: Reading, fields: Fields, path: string): TermsForm {
  const { faults } = reading
  const { limits, retry, timeout, priority, queue } = fields
  const uses = limits === undefined ? [] : readLimits(reading, limits, `${path}.limits`)
  if (priority !== undefined) faults.caught(`${path}.priority`, () => checkPriority(priority as number, path))
  const policy = retry === undefined ? undefined : readRetry(faults, retry, `${path}.retry`)
  const timeoutMs = timeout === undefined ? undefined : readDuration(faults, timeout, `${path}.timeout`)
  const named = queue === undefined ? undefined : faults.caught(`${path}.queue`, () => checkQueue(queue as string))
  return {
    ...(uses.length > 0 && { limits: uses }),
    ...(policy && { retry: policy }),
    ...(timeoutMs !== undefined && { timeout: timeoutMs }),
    ...(priority !== undefined && { priority: priority as number }),
    ...(named !== undefined && { queue: named }),
  }
}

/** Reads a list of limits. */
export function readLimits(reading: Reading, list: unknown, path: string): LimitForm[] {
  if (Array.isArray(list)) return list.flatMap((each, i) => readLimit(reading, each, `${path}[${i}]`) ?? [])
  reading.faults.expected(path, list, 'a list, such as [{ "limit": "crm", "by": "input.tenant" }]')
  return []
}

function readLimit(reading: Reading, value: unknown, path: string): LimitForm | null {
  const { faults, policy } = reading
  const fields = faults.fields(value, ['limit', 'by', 'key', 'weight'], path)
  if (!fields) return null
  const { limit, by, key, weight } = fields
  if (!isName(limit)) {
    faults.expected(`${path}.limit`, limit, 'the name of a limit')
    return null
  }
  const known = policy(limit)
  if (known === null)
    faults.add(
      `${path}.limit`,
      'limit.unknown',
      `${path}.limit is unknown: ${JSON.stringify(limit)}. Define it under limits, or in new Sluice({ limits: [...] }).`,
    )
  if (by !== undefined && key !== undefined) faults.expected(`${path}.key`, key, 'by or key, not both')
  if (key !== undefined && (typeof key !== 'string' || key === ''))
    faults.expected(`${path}.key`, key, 'a text that is not empty')
  const units = weight === undefined || weight === 1 ? undefined : readWeight(reading, weight, known, `${path}.weight`)
  return {
    limit,
    ...(by !== undefined && { by: readPathOrCode(reading, by, `${path}.by`) }),
    ...(key !== undefined && { key: key as string }),
    ...(units !== undefined && { weight: units }),
  }
}

function readWeight(
  { faults, seenPath }: Reading,
  weight: unknown,
  known: LimitPolicy | null | undefined,
  path: string,
): number | string | InCode {
  if (isInCode(weight)) return IN_CODE
  if (isPath(weight)) {
    seenPath(weight, path)
    return weight
  }
  const units = faults.caught(path, () => checkUnits(weight, path))
  const rule = known?.rule
  const most = rule && rule.kind !== 'spacing' ? capacityOf(rule) : null
  if (units !== undefined && most !== null && units > most)
    faults.add(
      path,
      'limit.weight.above_burst',
      `${path} is ${units}, which can never start under a limit of ${most} at once. Raise that, or split the work.`,
    )
  return units ?? 1
}

/** Reads a path or what stands for code. */
export function readPathOrCode({ faults, seenPath }: Reading, value: unknown, path: string): string | InCode {
  if (isInCode(value)) return IN_CODE
  if (isPath(value)) seenPath(value, path)
  else faults.expected(path, value, "a path such as 'input.tenant'")
  return value as string
}

/** Reads a duration as milliseconds. */
export function readDuration(faults: Faults, value: unknown, path: string): number | undefined {
  return faults.caught(path, () => durationMs(value as Duration, path))
}

function readRetry(faults: Faults, value: unknown, path: string): RetryForm | undefined {
  const policy = faults.caught(path, () => retryPolicy(value as RetryOptions, path))
  if (!policy) return undefined
  const { attempts, backoff, initialUs, maxUs, factor, jitter } = policy
  return { attempts, backoff, initial: initialUs / 1000, max: maxUs / 1000, factor, jitter }
}
