/** The option `budgets` of an engine: the backends that keep budgets outside its store. */
import { nearest } from '../../base/nearest.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, ownNames, show } from '../../base/options.ts'
import { isName } from '../../base/text.ts'
import { isAddress, refuseAddress } from '../../limiter/contract/address.ts'
import type { LimitBackend } from '../../limiter/contract/limiter.ts'
import { checkBackend, type FailMode, type FailModes, failModeOf } from '../../limiter/client/options.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'

/** A backend of budgets, with options. */
export interface BudgetOptions {
  /**
   * `memory:`, `redis://host`, `rediss://host`, `redis+cluster://host`, `redis+sentinel://host/name`, `nats://host`, or a
   * backend.
   */
  backend: string | LimitBackend
  /** Separates users of one server: 1 to 255 characters; default `sluice`. The same namespace is the same budgets. */
  namespace?: string
  /**
   * While the backend cannot be reached: `closed` (default) lets jobs wait, `open` lets them start without a budget. One
   * for all its limits, or one for each by name.
   */
  failMode?: FailMode | Readonly<Record<string, FailMode>>
}

/** The options of one backend, checked. */
export interface BudgetSettings {
  readonly backend: string | LimitBackend
  readonly namespace: string
  readonly failMode: FailModes
}

const NAMES = ['backend', 'namespace', 'failMode']

/** Checks the option. @throws {SluiceError} `option.invalid`, `limiter.url.invalid` */
export function budgetsOf(budgets: unknown): ReadonlyMap<string, BudgetSettings> {
  if (budgets === undefined) return new Map()
  if (ownNames(budgets) === null)
    throw new SluiceError(
      'option.invalid',
      `budgets of new Sluice is invalid: ${show(budgets)}. Expected backends by name, such as { shared: 'redis://localhost' }.`,
    )
  return new Map(
    Object.entries(budgets as Readonly<Record<string, unknown>>).map(([name, value]) => {
      if (isName(name)) return [name, budgetOf(value, `budgets.${name} of new Sluice`)]
      throw new SluiceError('option.invalid', `A name in budgets of new Sluice is invalid: ${show(name)}.`)
    }),
  )
}

function budgetOf(value: unknown, what: string): BudgetSettings {
  const isPlain = typeof value === 'object' && value !== null && !('acquire' in value)
  const given: { backend: unknown; namespace?: unknown; failMode?: unknown } = isPlain
    ? (checkOptions(value, NAMES, what), value as BudgetOptions)
    : { backend: value }
  const { backend, namespace = 'sluice', failMode } = given
  if (typeof backend === 'string') {
    if (!isAddress(backend)) refuseAddress(backend)
  } else checkBackend(backend)
  if (typeof namespace !== 'string' || !isName(namespace))
    throw new SluiceError(
      'option.invalid',
      `namespace of ${what} is invalid: ${show(namespace)}. Expected 1 to 255 characters, without NUL and half surrogate pairs.`,
    )
  return { backend: backend as string | LimitBackend, namespace, failMode: failModeOf(failMode, what) }
}

/** Refuses a limit whose backend this engine does not have. @throws {SluiceError} `budget.unknown` */
export function checkBudget(limit: string, { backend }: LimitPolicy, backends: ReadonlySet<string>): void {
  if (backend === undefined || backends.has(backend)) return
  const near = nearest(backend, [...backends])
  const remedy =
    near === null
      ? `Add it: new Sluice({ budgets: { ${JSON.stringify(backend)}: 'redis://…' } }).`
      : `Did you mean ${near}?`
  throw new SluiceError(
    'budget.unknown',
    `The limit ${limit} keeps its budgets at the backend ${JSON.stringify(backend)}, which this engine does not have. ${remedy}`,
  )
}

/** Refuses a fail mode of a limit that its backend does not keep. @throws {SluiceError} `limit.unknown` */
export function checkFailModes(
  budgets: ReadonlyMap<string, BudgetSettings>,
  limits: { policy(name: string): LimitPolicy | null },
): void {
  for (const [budget, { failMode }] of budgets)
    for (const name of failMode.names) {
      if (limits.policy(name)?.backend === budget) continue
      throw new SluiceError(
        'limit.unknown',
        `failMode of budgets.${budget} of new Sluice names the limit ${name}, which no task lists with that backend. Correct the name, or add the limit to limits of new Sluice.`,
      )
    }
}

/** Refuses limits of whole queues that a backend keeps. @throws {SluiceError} `option.invalid` */
export function refuseForQueue(queue: string, limit: string, { backend }: LimitPolicy): void {
  if (backend === undefined) return
  throw new SluiceError(
    'option.invalid',
    `The limit ${limit} of queue ${queue} has a backend, which the limit of a whole queue cannot have. List it in the tasks of that queue, or key it by the input.`,
  )
}

/** Refuses a limit that a flow holds and a backend keeps: a flow has no process. @throws {SluiceError} `option.invalid` */
export function refuseForHold(flow: string, limit: string, { backend }: LimitPolicy): void {
  if (backend === undefined) return
  throw new SluiceError(
    'option.invalid',
    `The limit ${limit} in hold of ${flow} has a backend, where a permit needs a living process. List it in the steps, or leave its backend out.`,
  )
}
