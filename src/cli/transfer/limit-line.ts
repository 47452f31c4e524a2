/** The policy of a limit in an exported file: in the form in which a store keeps it. */
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { SluiceError } from '../../base/errors.ts'
import { isName } from '../../base/text.ts'
import type { Guarantee, LimitDefinition, LimitPolicy } from '../../policy/limits/limit.ts'
import { MAX_UNITS, normalisePolicy } from '../../policy/limits/normalise.ts'
import { writePolicy } from '../../policy/limits/override.ts'
import type { CommonLimit, Policy } from '../../policy/limits/policy.ts'
import { guaranteeOf } from '../../policy/limits/read-guarantee.ts'

const Name = z.string().refine((name) => isName(name), 'is not the name of a limit')
const Whole = z.int().min(0)

const Rate = strict({
  kind: z.literal('rate'),
  rate: Whole,
  periodUs: Whole,
  burst: Whole,
  startEmpty: z.boolean(),
})
const Spacing = strict({ kind: z.literal('spacing'), everyUs: Whole })
const Aligned = z.discriminatedUnion('align', [
  strict({ align: z.literal('epoch'), periodUs: Whole }),
  strict({ align: z.literal('calendar'), unit: z.enum(['hour', 'day', 'week', 'month']), timezone: z.string() }),
])
const Rule = z.discriminatedUnion('kind', [
  Rate,
  strict({ kind: z.literal('sliding'), max: Whole, periodUs: Whole }),
  strict({ kind: z.literal('fixed'), max: Whole, window: Aligned, guardUs: Whole }),
  Spacing,
])
const Headroom = strict({ units: Whole, priority: z.int() })
const Calibration = strict({
  direction: z.enum(['down', 'both']),
  reset: z.enum(['window', 'refill']),
  budget: z.string().min(1).nullable(),
})
const Of = strict({
  limit: Name,
  rule: Rate.nullable(),
  concurrency: Whole.nullable(),
  keys: Whole.nullable(),
  overcommit: z.enum(['refuse', 'scale']),
})
/** A policy with the right members. `definitionOf` checks that together they are a policy. */
export const StoredPolicy: z.ZodType<object> = strict({
  rule: Rule.nullable(),
  spacing: Spacing.optional(),
  concurrency: Whole.nullable(),
  onLimit: z.enum(['wait', 'reschedule', 'drop']),
  maxWaitUs: Whole.nullable(),
  retries: z.enum(['charge', 'free']),
  scope: z.enum(['fleet', 'worker']).optional(),
  backend: Name.optional(),
  onMissingKey: z.enum(['unlimited', 'fail', 'shared']).optional(),
  guardUs: Whole.optional(),
  defaultGuard: z.boolean().optional(),
  headroom: Headroom.optional(),
  calibrate: Calibration.optional(),
  of: Of.optional(),
  mode: z.literal('shadow').optional(),
  version: Whole.optional(),
})

/** An object without other members. */
function strict<T extends z.core.$ZodLooseShape>(shape: T): z.ZodObject<T, z.core.$strict> {
  const expected = Object.keys(shape).join(', ')
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys' ? `${issue.keys.join(', ')} is unknown. Expected ${expected}` : undefined,
  })
}

/** A guarantee may be any part of it. */
const ANY_COMMON = normalisePolicy({ rate: MAX_UNITS, per: 0.001, concurrency: MAX_UNITS }, 'a common limit')

/**
 * The definition in the line of a limit. A declaration is written from its policy and read as that of a caller is: it must come to
 * the same policy. The store may have another definition of a common limit by now, so a guarantee is checked against its
 * own limit alone.
 * @throws {SluiceError} `policy.invalid`
 */
export function definitionOf(name: string, version: number, policy: object): LimitDefinition {
  const { of, ...given } = policy as LimitPolicy
  const own = normalisePolicy(writePolicy(given) as unknown as Policy, 'policy')
  refuseOther(given, own, 'policy')
  if (!of) return { name, version, policy: own }
  const found = guaranteeOf(declared(of), { name, policy: own }, { limit: of.limit, policy: ANY_COMMON }, 'policy')
  refuseOther(of, found, 'policy.of')
  return { name, version, policy: { ...own, of: found } }
}

function declared({ limit, rule, concurrency, keys, overcommit }: Guarantee): Omit<CommonLimit, 'limit'> {
  const rate = rule && { rate: rule.rate, per: rule.periodUs / 1000, burst: rule.burst }
  const atLeast = { ...rate, ...(concurrency !== null && { concurrency }) } as CommonLimit['atLeast']
  return { ...({ limit } as object), atLeast, ...(keys !== null && { keys }), overcommit }
}

/** Refuses a member that differs from its declaration, such as a guard that the rule does not have. */
function refuseOther(given: object, found: object, path: string): void {
  const expected = new Map(Object.entries(found))
  for (const [member, value] of Object.entries(given))
    if (!isDeepStrictEqual(value, expected.get(member)))
      throw new SluiceError(
        'policy.invalid',
        `${path}.${member} is invalid: ${JSON.stringify(value)}. Expected ${expected.has(member) ? JSON.stringify(expected.get(member)) : 'none'} beside the other members`,
      )
}
