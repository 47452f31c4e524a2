import { SluiceError } from '../base/errors.ts'
import { nearest } from '../base/nearest.ts'
import { checkOptions, ownNames, quote, show } from '../base/options.ts'
import { inLaneOrder } from '../jobs/lane.ts'
import type { LimitPolicy, LimitDefinition } from '../policy/limits/limit.ts'
import { normalisePolicy } from '../policy/limits/normalise.ts'
import { isPath, partitionKey, readPath, SHARED_KEY } from '../policy/limits/partition-key.ts'
import type { Policy } from '../policy/limits/policy.ts'
import type { BucketUse } from '../store/contract/store.ts'
import { type CommonUse, refuseTooManyShares, servedShare, type ServedShare } from './served-share.ts'
import { ownName } from './tenant.ts'

/** A limit of the server: its policy, its owner and its key. */
export type ServedLimit = Omit<Policy, 'of'> & {
  /** One budget for all tenants. Default: each tenant has budgets of its own under this policy. */
  readonly shared?: boolean
  /** The path of the partition key, for uses without one of their own; a client then cannot choose the key. */
  readonly by?: string
  /** The common limit that each start pays to as well, and the share of it that is guaranteed. */
  readonly of?: ServedShare
}

/** The use of a limit by the jobs of a type or a queue. */
export interface ServedUse {
  readonly limit: string
  /**
   * `tenant` (the authenticated one), `args.0.tenantId`, `meta.region`; any other path starts in the first argument.
   */
  readonly by?: string
  /** The units that each start costs; default 1. */
  readonly weight?: number
}

/** The limits of a server's jobs, beside those of the engine's own tasks. */
export interface ServedLimits {
  readonly limits?: Readonly<Record<string, ServedLimit | string>>
  readonly types?: Readonly<Record<string, { readonly limits?: readonly ServedUse[] }>>
  /**
   * Limits without a key apply to the queues of tenants. Pass them to the engine's `queues` too, for queues without a
   * tenant.
   */
  readonly queues?: Readonly<Record<string, { readonly limits?: readonly ServedUse[] }>>
}

/** The fields of a job by which its limits are resolved. */
export interface LimitedJob {
  readonly type: string
  /** The client's name of the queue. */
  readonly queue: string
  readonly args: readonly unknown[]
  readonly meta: unknown
  readonly tenant: string
}

/** A bucket that a job needs. */
export interface ResolvedUse {
  /** The name of the limit in the store. */
  readonly limit: string
  readonly key: string
  readonly weight: number
}

interface Rule {
  readonly policy: LimitPolicy
  readonly shared: boolean
  readonly by: string | null
  /** The limit has partition keys: a use without one is a mistake. */
  readonly keyed: boolean
  /** The common limit that its starts pay to as well; null: there is none. */
  readonly common: CommonUse | null
}

/** The limits of a server's configuration, and the buckets that a job needs because of them. */
export class LimitRules {
  #rules = new Map<string, Rule>()
  #types = new Map<string, readonly ServedUse[]>()
  #queues = new Map<string, readonly ServedUse[]>()

  /**
   * @throws {SluiceError} `policy.invalid`, `limit.unknown`, `limit.key.invalid`, `limit.weight.above_burst`,
   * `option.invalid`
   */
  constructor(served: ServedLimits = {}) {
    this.replace(served)
  }

  /**
   * Replaces the limits. Invalid ones leave the old ones in place. @throws {SluiceError} the codes of the constructor
   */
  replace(served: ServedLimits): void {
    checkOptions(served, ['limits', 'types', 'queues'], 'limits of the server')
    const { limits = {}, types = {}, queues = {} } = served
    checkNamed(limits, 'limits')
    const [ofTypes, ofQueues] = [usesOf(types, 'type'), usesOf(queues, 'queue')]
    const all = [...ofTypes.values(), ...ofQueues.values()].flat()
    const rules = rulesOf(limits, all)
    for (const use of all) checkUse(use, rules.get(use.limit))
    for (const [queue, uses] of ofQueues) refuseWholeShare(queue, uses, rules)
    this.#rules = rules
    this.#types = ofTypes
    this.#queues = ofQueues
  }

  /** Returns whether the configuration sets the limits of a type, instead of the engine's task. */
  covers(type: string): boolean {
    return this.#types.has(type)
  }

  /** The stored name of a limit that a caller names. */
  storedName(tenant: string, name: string): string {
    return this.isShared(name) ? name : ownName(tenant, name)
  }

  /** Returns whether all tenants share the budget of that name. */
  isShared(name: string): boolean {
    return this.#rules.get(name)?.shared === true
  }

  /** Returns whether a limit has a budget for each key. */
  isKeyed(name: string): boolean {
    return this.#rules.get(name)?.keyed === true
  }

  /** The stored name of the owner of a limit, or of one key of it; null: all tenants share it. */
  ownerOf(stored: string, key: string | undefined): string | null {
    if (!this.isShared(stored)) return stored
    return this.isKeyed(stored) && key !== undefined ? ownName(key, '') : null
  }

  /** Returns whether a tenant draws from a budget together with others: from a shared one, but for its own key. */
  isOfAll(tenant: string, name: string, key: string): boolean {
    return tenant !== '' && this.isShared(name) && !(this.isKeyed(name) && key === tenant)
  }

  /** A tenant's limit of that name, from the configuration; null: it has none. */
  definition(tenant: string, name: string): LimitDefinition | null {
    const rule = this.#rules.get(name)
    if (!rule) return null
    const { of, version = 0 } = rule.policy
    const policy = of ? { ...rule.policy, of: { ...of, limit: this.storedName(tenant, of.limit) } } : rule.policy
    return { name: this.storedName(tenant, name), policy, version }
  }

  /** The names of the limits. */
  names(): string[] {
    return [...this.#rules.keys()]
  }

  /** The queues with limits here, by the clients' names. */
  queueNames(): string[] {
    return [...this.#queues.keys()]
  }

  /** The needs of every start of a queue without a tenant, in the form of an engine's declaration. */
  ofWholeQueue(queue: string): BucketUse[] {
    const own = (this.#queues.get(queue) ?? []).filter((use) => this.#byOf(use) === null)
    return inLaneOrder(own.map(({ limit, weight = 1 }) => ({ limit, key: SHARED_KEY, weight })))
  }

  /**
   * The buckets that a job needs for its type and queue. @throws {SluiceError} `limit.key.missing`, `limit.key.invalid`
   */
  uses(job: LimitedJob): { readonly name: string; readonly use: ResolvedUse }[] {
    const ofQueue = (this.#queues.get(job.queue) ?? []).filter((use) => job.tenant !== '' || this.#byOf(use) !== null)
    return [...(this.#types.get(job.type) ?? []), ...ofQueue].flatMap((use) => {
      const key = this.#keyOf(use.limit, this.#byOf(use), job)
      if (key === null) return []
      const { limit: name, weight = 1 } = use
      return [
        { name, use: { limit: this.storedName(job.tenant, name), key, weight } },
        ...this.commonUses(name, weight, job),
      ]
    })
  }

  /**
   * The bucket of the common limit that a start of a limit pays to as well; none: the limit has no share of one.
   * @throws {SluiceError} `limit.key.missing`, `limit.key.invalid`
   */
  commonUses(
    name: string,
    weight: number,
    job: LimitedJob,
  ): readonly { readonly name: string; readonly use: ResolvedUse }[] {
    const common = this.#rules.get(name)?.common
    const key = common && this.#keyOf(common.limit, common.by, job)
    if (!common || key === null || key === undefined) return []
    return [{ name: common.limit, use: { limit: this.storedName(job.tenant, common.limit), key, weight } }]
  }

  /**
   * The key of the bucket that a job names by `x_limit`; null: this job is not limited.
   * @throws {SluiceError} `limit.key.missing` if the limit has keys and the job names none; `limit.key.invalid` if the
   * server sets the key
   */
  keyOf(name: string, key: string | number | undefined, job: LimitedJob): string | null {
    const rule = this.#rules.get(name)
    if (rule && rule.by !== null) {
      if (key === undefined) return this.#keyOf(name, rule.by, job)
      throw new SluiceError(
        'limit.key.invalid',
        `limit ${name}: the server sets its key by ${rule.by}. Omit x_limit.key.`,
      )
    }
    if (key === undefined && !rule?.keyed) return SHARED_KEY
    const found = partitionKey(key, rule?.policy.onMissingKey ?? 'fail', `limit ${name} of a job of type ${job.type}`)
    return found.kind === 'key' ? found.key : null
  }

  #byOf({ limit, by }: ServedUse): string | null {
    return by ?? this.#rules.get(limit)?.by ?? null
  }

  #keyOf(name: string, by: string | null, job: LimitedJob): string | null {
    if (by === null) return SHARED_KEY
    const onMissing = this.#rules.get(name)?.policy.onMissingKey
    const found = partitionKey(valueAt(by, job), onMissing, `limit ${name} of a job of type ${job.type}`, by)
    return found.kind === 'key' ? found.key : null
  }
}

/** The uses of limits by each type or queue. @throws {SluiceError} `option.invalid` */
function usesOf(
  of: Readonly<Record<string, { readonly limits?: readonly ServedUse[] }>>,
  kind: 'type' | 'queue',
): Map<string, readonly ServedUse[]> {
  checkNamed(of, `${kind}s`)
  return new Map(Object.entries(of).map(([name, each]) => [name, readUses(each, `${kind} ${name} of the server`)]))
}

function readUses(of: { readonly limits?: readonly ServedUse[] }, what: string): readonly ServedUse[] {
  checkOptions(of, ['limits'], what)
  const { limits = [] } = of
  if (!Array.isArray(limits))
    throw new SluiceError('option.invalid', `${what}: limits is invalid: ${show(limits)}. Expected a list.`)
  for (const use of limits)
    checkOptions(use, ['limit', 'by', 'weight'], `a limit of ${what}`, { aliases: { key: 'by' } })
  return limits as readonly ServedUse[]
}

function checkNamed(value: unknown, name: string): void {
  if (ownNames(value) !== null) return
  throw new SluiceError(
    'option.invalid',
    `${name} of the server is invalid: ${show(value)}. Expected an object with one member for each name.`,
  )
}

/**
 * Reads a policy of a server's configuration. A producer cannot avoid a limit by sending no key, unless the policy
 * allows it. @throws {SluiceError} `policy.invalid`
 */
function servedPolicy(name: string, { shared: _shared, by: _by, of: _of, ...policy }: ServedLimit): LimitPolicy {
  return normalisePolicy({ onMissingKey: 'fail', ...policy } as Policy, `limit ${name}`)
}

/** A limit of the configuration as an object; it may be the text of a policy. */
export function servedLimit(limit: ServedLimit | string): ServedLimit {
  return typeof limit === 'string' ? { policy: limit } : limit
}

function ruleOf(name: string, limit: ServedLimit, keyed: boolean): Rule {
  if (!/^[^\0/]{1,255}$/u.test(name))
    throw new SluiceError(
      'policy.invalid',
      `The name of the limit ${quote(name)} is invalid. Expected 1 to 255 characters without a slash or NUL.`,
    )
  if (ownNames(limit) === null)
    throw new SluiceError('policy.invalid', `limit ${name} is invalid: ${show(limit)}. Expected a policy.`)
  for (const member of Object.keys(limit))
    if (member !== 'shared' && nearest(member, ['shared'], 2) !== null)
      throw new SluiceError('policy.invalid', `limit ${name} has no option ${quote(member)}; did you mean shared?`)
  const policy = servedPolicy(name, limit)
  const { shared = false, by = null } = limit
  if (typeof shared !== 'boolean')
    throw new SluiceError('option.invalid', `limit ${name}: shared is invalid. Expected true or false.`)
  if (by !== null) checkPath(name, by)
  return { policy, shared, by, keyed: keyed || by !== null, common: null }
}

/** All limits, each with its share of another one. */
function rulesOf(limits: NonNullable<ServedLimits['limits']>, uses: readonly ServedUse[]): Map<string, Rule> {
  const served = Object.entries(limits).map(([name, limit]) => [name, servedLimit(limit)] as const)
  const isKeyed = (name: string): boolean => uses.some((use) => use.limit === name && use.by !== undefined)
  const rules = new Map(served.map(([name, limit]) => [name, ruleOf(name, limit, isKeyed(name))]))
  const sharing = new Set(served.flatMap(([name, { of }]) => (of === undefined ? [] : [name])))
  const shares = served.flatMap(([name, { of }]) =>
    of === undefined ? [] : [[name, servedShare(name, of, rules, sharing)] as const],
  )
  for (const [name, { guarantee, common }] of shares) {
    const rule = rules.get(name) as Rule
    if (common.by !== null) checkPath(common.limit, common.by)
    const other = rules.get(common.limit) as Rule
    rules.set(name, { ...rule, policy: { ...rule.policy, of: guarantee }, common })
    if (common.by !== null) rules.set(common.limit, { ...other, keyed: true })
  }
  refuseTooManyShares(new Map([...rules].map(([name, { policy }]) => [name, policy])))
  return rules
}

/** A share counts for single jobs: a limit of a queue as a whole has none. */
function refuseWholeShare(queue: string, uses: readonly ServedUse[], rules: ReadonlyMap<string, Rule>): void {
  const found = uses.find(({ limit, by }) => rules.get(limit)?.common && (by ?? rules.get(limit)?.by ?? null) === null)
  if (!found) return
  throw new SluiceError(
    'option.invalid',
    `queue ${queue}: limit ${found.limit} guarantees a share of another limit, which holds for single jobs. Add by, or list it for types of jobs.`,
  )
}

function checkUse({ limit, by, weight = 1 }: ServedUse, rule: Rule | undefined): void {
  if (!rule)
    throw new SluiceError('limit.unknown', `The configuration names the limit ${limit}, but does not define it.`)
  if (by !== undefined) checkPath(limit, by)
  const most = mostOf(rule.policy)
  if (!Number.isInteger(weight) || weight < 1 || weight > most)
    throw new SluiceError(
      'limit.weight.above_burst',
      `limit ${limit}: the weight is invalid: ${weight}. Expected a whole number from 1 to ${most}.`,
    )
}

function checkPath(name: string, by: unknown): void {
  if (!isPath(by) || by === 'args' || by === 'meta')
    throw new SluiceError(
      'limit.key.invalid',
      `limit ${name}: by is invalid. Expected tenant, args.0.name, meta.name or a path into the first argument.`,
    )
}

/** The most units that one start may take of a limit. */
export function mostOf({ rule }: LimitPolicy): number {
  if (!rule || rule.kind === 'spacing') return 1_000_000_000
  return rule.kind === 'rate' ? rule.burst : rule.max
}

function valueAt(by: string, { args, meta, tenant }: LimitedJob): unknown {
  if (by === 'tenant') return tenant === '' ? undefined : tenant
  if (by.startsWith('args.')) return readPath({ args }, by)
  if (by.startsWith('meta.')) return readPath({ meta }, by)
  return readPath(args[0], by)
}
