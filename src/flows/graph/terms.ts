import { retryPolicy, type RetryPolicy } from '../../jobs/retry-policy.ts'
import type { NewJob } from '../../jobs/job.ts'
import { checkUnits, type UseSpec } from '../../policy/limits/define.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { partitionKey, readPath, SHARED_KEY } from '../../policy/limits/partition-key.ts'
import { isInCode, type LimitForm, type RetryForm } from './form.ts'
import type { SeenValues } from './seen.ts'

/** Thrown when a flow needs code that this process has not: another worker may. */
export class CodeMissing extends Error {
  /** Null: the output. */
  readonly step: string | null

  constructor(step: string | null) {
    super(`the code of ${step ?? 'the output'} is missing`)
    this.step = step
  }
}

/** The retry policy of a step; absent: that of tasks. */
export function retryOf(retry: RetryForm | undefined): RetryPolicy {
  return retryPolicy(retry, 'retry of a step')
}

/** The buckets, weights and options that a step's limits give. */
export interface StepUses {
  readonly specs: readonly UseSpec<never>[]
  /** Of limits that this engine does not know: the store may. */
  readonly unknown: NewJob['uses']
}

/**
 * The uses of a step's limits. A key or a weight in code is that of the running code, found by the limit's name and its
 * place among the limits of that name.
 * @throws {CodeMissing}
 */
export function usesOf(
  step: string,
  limits: readonly LimitForm[],
  code: readonly UseSpec<never>[],
  policyOf: (limit: string) => LimitPolicy | null,
  seen: SeenValues,
): StepUses {
  const specs: UseSpec<never>[] = []
  const unknown: NewJob['uses'][number][] = []
  for (const [i, form] of limits.entries()) {
    const { limit } = form
    const place = limits.slice(0, i).filter((each) => each.limit === limit).length
    const own = code.filter((each) => each.limit === limit)[place]
    if ((isInCode(form.by) || isInCode(form.weight)) && !own) throw new CodeMissing(step)
    const policy = own?.policy ?? policyOf(limit)
    const weight = weightOf(form, own, seen)
    if (policy) specs.push({ limit, policy, inline: null, key: keyOf(form, own, seen), weight })
    else unknown.push(...unknownUse(step, form, weight, seen))
  }
  return { specs, unknown }
}

/** The use of a limit without a policy: its key is a path or a text, and a missing one is a mistake. */
function unknownUse(
  step: string,
  { limit, by, key }: LimitForm,
  weight: UseSpec<never>['weight'],
  seen: SeenValues,
): NewJob['uses'] {
  const what = `limit ${limit} of step ${step}`
  const units = checkUnits(weight ?? 1, what)
  if (typeof by !== 'string') return [{ limit, key: key ?? SHARED_KEY, weight: units }]
  const value = readPath(seen, by)
  const found = partitionKey(typeof value === 'boolean' ? String(value) : value, undefined, what, by)
  return found.kind === 'missing' ? [] : [{ limit, key: found.key, weight: units }]
}

function keyOf({ by, key }: LimitForm, own: UseSpec<never> | undefined, seen: SeenValues): UseSpec<never>['key'] {
  if (key !== undefined) return { kind: 'value', value: key }
  if (by === undefined) return { kind: 'none' }
  if (typeof by !== 'string') return own?.key ?? { kind: 'none' }
  const value = readPath(seen, by)
  return typeof value === 'boolean' ? { kind: 'value', value: String(value) } : { kind: 'path', path: by }
}

function weightOf({ weight }: LimitForm, own: UseSpec<never> | undefined, seen: SeenValues): UseSpec<never>['weight'] {
  if (typeof weight === 'string') return readPath(seen, weight) as number
  return isInCode(weight) ? own?.weight : weight
}
