import { SluiceError } from '../../base/errors.ts'
import { messageOf } from '../../base/thrown.ts'
import { inLaneOrder } from '../../jobs/lane.ts'
import { checkLimits, checkUnits, type Limit, type LimitUse, useOf, type UseSpec } from '../../policy/limits/define.ts'
import { refuseOvercommitted } from '../../policy/limits/guarantee.ts'
import { keptBack } from '../../policy/limits/headroom.ts'
import { checkBudget } from './budgets.ts'
import type { LimitPolicy, LimitDefinition } from '../../policy/limits/limit.ts'
import { partitionKey, readPath, SHARED_KEY } from '../../policy/limits/partition-key.ts'
import type { BucketUse, Store } from '../../store/contract/store.ts'

/** Limits beyond this number are reported once. */
const MANY = 1000

/** The options of a call that its limits depend on. */
export interface CallTerms {
  /** For uses without a weight of their own; undefined: 1. */
  readonly weight: number | undefined
  /** Null: no job. */
  readonly priority: number | null
}

/** The limits that one engine defines, and the cost of a job in each of them. */
export class LimitRegistry {
  readonly #policies = new Map<string, LimitPolicy>()
  /** The first place that listed each limit. */
  readonly #where = new Map<string, string>()
  /** Definitions that other engines stored; null: the store has none of that name. */
  readonly #elsewhere = new Map<string, LimitPolicy | null>()
  #learning = false
  /** Definitions that no call of `define` has stored yet. */
  readonly #unstored = new Map<string, LimitDefinition>()
  /** A running store of definitions. */
  #storing: Promise<unknown> | null = null
  /** Policies that equal the one of their name. */
  readonly #same = new WeakSet<LimitPolicy>()
  readonly #warn: (message: string) => void
  readonly #warned = new Set<string>()
  readonly #backends: ReadonlySet<string>

  /** @param backends the names of the backends that keep budgets */
  constructor(warn: (message: string) => void, backends: Iterable<string> = []) {
    this.#warn = warn
    this.#backends = new Set(backends)
  }

  /**
   * Adds a limit. The same name with the same policy is the same limit.
   * @param where the lister's name in messages, as in `task tenant.sync`
   * @throws {SluiceError} `limit.conflict`; `limit.weight.above_burst` for a constant weight
   */
  add(use: UseSpec<never>, where: string): void {
    this.#check(use, where)
    if (use.common) this.add(use.common, where)
    if (typeof use.weight === 'number' && use.policy.mode !== 'shadow')
      refuseAboveBurst(use.policy, use.weight, `limit ${use.limit} of ${where}`)
    if (!this.#policies.has(use.limit)) this.#define(use, where)
  }

  #define({ limit, policy }: UseSpec<never>, where: string): void {
    checkBudget(limit, policy, this.#backends)
    this.#refuseOvercommitted(limit, policy, where)
    this.#policies.set(limit, policy)
    this.#where.set(limit, where)
    this.#unstored.set(limit, { name: limit, policy, version: policy.version ?? 0 })
    if (this.#policies.size > MANY)
      this.#warnOnce(
        `This engine defines more than ${MANY} limits, and the store keeps every one. Use one limit with keys: limit.by(…) or limit.key(…).`,
      )
  }

  #refuseOvercommitted(limit: string, { of }: LimitPolicy, where: string): void {
    const common = of && this.#policies.get(of.limit)
    if (!common) return
    const others = [...this.#policies.values()].flatMap((each) => (each.of?.limit === of.limit ? [each.of] : []))
    refuseOvercommitted(`limit ${limit} of ${where}`, of.limit, common, [...others, of])
  }

  /** Callers often recreate limits with the same content, which is compared once for each object. */
  #check({ limit, policy }: UseSpec<never>, where: string): void {
    const known = this.#policies.get(limit)
    if (!known || known === policy || this.#same.has(policy)) return
    if (JSON.stringify(known) !== JSON.stringify(policy))
      throw new SluiceError(
        'limit.conflict',
        `The limit ${limit} is defined twice: in ${this.#where.get(limit)} as ${JSON.stringify(known)}, and in ${where} as ${JSON.stringify(policy)}. Define it once, or rename one of them.`,
      )
    this.#same.add(policy)
  }

  /** The policy of a limit that this engine defines, or has learned from the store. */
  policy(name: string): LimitPolicy | null {
    return this.#policies.get(name) ?? this.#elsewhere.get(name) ?? null
  }

  /**
   * Reads the definitions of limits that only other engines define, once for each, so that a refusal closes their
   * buckets by their own pace. The run does not wait for it.
   */
  learn(uses: readonly { readonly limit: string }[], store: Pick<Store, 'limits'>): void {
    if (!this.#learning && uses.some(({ limit }) => !this.#isKnown(limit))) void this.#learn(uses, store)
  }

  async #learn(uses: readonly { readonly limit: string }[], store: Pick<Store, 'limits'>): Promise<void> {
    this.#learning = true
    try {
      for (const { name, policy } of await store.limits()) this.#elsewhere.set(name, policy)
      for (const { limit } of uses) if (!this.#isKnown(limit)) this.#elsewhere.set(limit, null)
    } catch {
      // The next run of such a job tries again.
    } finally {
      this.#learning = false
    }
  }

  #isKnown(limit: string): boolean {
    return this.#policies.has(limit) || this.#elsewhere.has(limit)
  }

  definitions(): LimitDefinition[] {
    return [...this.#policies].map(([name, policy]) => ({ name, policy, version: policy.version ?? 0 }))
  }

  /** Whether the store has all definitions of this engine. */
  get isStored(): boolean {
    return this.#unstored.size === 0
  }

  /**
   * Stores the definitions of this engine that the store does not have yet: once for each limit and process, before the
   * first job that needs it. Other processes then know it. Undefined: there are none.
   */
  store(store: Pick<Store, 'define'>): Promise<boolean> | undefined {
    return this.#unstored.size === 0 ? undefined : this.#store(store)
  }

  /** @returns whether a definition was news to the store */
  async #store(store: Pick<Store, 'define'>): Promise<boolean> {
    // Of the calls that come together, the first stores the definitions of all.
    while (this.#storing) await this.#storing
    const definitions = [...this.#unstored.values()]
    if (definitions.length === 0) return false
    const storing = store.define(definitions)
    this.#storing = storing.catch(() => undefined).finally(() => (this.#storing = null))
    const changed = await storing
    this.stored(definitions)
    return changed.length > 0
  }

  /** A call of the store's `define` has stored these definitions. */
  stored(definitions: readonly LimitDefinition[]): void {
    for (const { name } of definitions) this.#unstored.delete(name)
  }

  /**
   * The buckets that a job of this input needs, in lane order, each once. A limit that this engine does not know yet is
   * defined by this use, unless the job is refused.
   * @throws {SluiceError} `limit.conflict`, `limit.key.invalid`, `limit.key.missing`, `limit.key.threw`,
   * `limit.weight.invalid`, `limit.weight.threw`, `limit.weight.above_burst`
   */
  resolve(specs: readonly UseSpec<never>[], input: unknown, terms: CallTerms, task: string): BucketUse[] {
    if (specs.every(({ limit }) => this.#policies.has(limit))) return this.#resolve(specs, input, terms, task)
    // A common limit comes first: a limit is checked against it.
    const all = specs.flatMap((spec) => (spec.common ? [spec.common, spec] : [spec]))
    const unknown = all.filter(({ limit }) => !this.#policies.has(limit))
    try {
      for (const spec of unknown) if (!this.#policies.has(spec.limit)) this.#define(spec, `a call of task ${task}`)
      return this.#resolve(specs, input, terms, task)
    } catch (error) {
      for (const { limit } of unknown)
        for (const map of [this.#policies, this.#where, this.#unstored]) map.delete(limit)
      throw error
    }
  }

  #resolve(specs: readonly UseSpec<never>[], input: unknown, terms: CallTerms, task: string): BucketUse[] {
    const uses: BucketUse[] = []
    for (const spec of specs) {
      const use = this.#resolveOne(spec, input, terms, task)
      if (!use) continue
      addUse(uses, use)
      const common = spec.common && { ...spec.common, weight: spec.common.weight ?? spec.weight }
      const shared = common && this.#resolveOne(common, input, terms, task)
      if (shared) addUse(uses, shared)
    }
    return inLaneOrder(uses)
  }

  #resolveOne(spec: UseSpec<never>, input: unknown, terms: CallTerms, task: string): BucketUse | null {
    const policy = this.#policies.get(spec.limit) ?? spec.policy
    const what = `limit ${spec.limit} of task ${task}`
    this.#check(spec, `a call of task ${task}`)
    let key = SHARED_KEY
    if (spec.key.kind !== 'none') {
      const value = this.#keyOf(spec, input, what)
      const found = partitionKey(value, policy.onMissingKey, what, spec.key.kind === 'path' ? spec.key.path : null)
      if (found.kind === 'missing') {
        if (value === '' && policy.onMissingKey === undefined)
          this.#warnOnce(
            `${what}: the key is '', so this job is not limited. Return null instead, or set onMissingKey.`,
          )
        return null
      }
      key = found.key
    }
    return { limit: spec.limit, key, weight: this.#weightOf(spec, policy, input, terms, what) }
  }

  #keyOf({ key }: UseSpec<never>, input: unknown, what: string): unknown {
    if (key.kind === 'value') return key.value
    if (key.kind === 'path') return readPath(input, key.path)
    if (key.kind === 'none') return undefined
    try {
      return key.fn(input as never)
    } catch (cause) {
      throw new SluiceError('limit.key.threw', `${what}: its key function threw: ${messageOf(cause)}.`, { cause })
    }
  }

  #weightOf(spec: UseSpec<never>, policy: LimitPolicy, input: unknown, terms: CallTerms, what: string): number {
    let units: unknown = spec.weight ?? terms.weight ?? 1
    if (typeof units === 'function') {
      try {
        units = (units as (input: unknown) => unknown)(input)
      } catch (cause) {
        throw new SluiceError('limit.weight.threw', `${what}: its weight function threw: ${messageOf(cause)}.`, {
          cause,
        })
      }
    }
    return weightUnder(policy, checkUnits(units, what), terms.priority, what)
  }

  #warnOnce(message: string): void {
    if (this.#warned.has(message)) return
    this.#warned.add(message)
    this.#warn(message)
  }
}

/** Adds a use of a bucket. The greatest weight counts if there are several. */
function addUse(uses: BucketUse[], use: BucketUse): void {
  const same = uses.findIndex((each) => each.limit === use.limit && each.key === use.key)
  if (same < 0) uses.push(use)
  else if ((uses[same] as BucketUse).weight < use.weight) uses[same] = use
}

/**
 * The units that a start takes from a limit: 1 where it counts no units.
 * @throws {SluiceError} `limit.weight.above_burst`: the limit can never admit it
 */
export function weightUnder(policy: LimitPolicy, weight: number, priority: number | null, what: string): number {
  // A guarantee counts units, also beside a rule that counts starts.
  const plain = policy.of?.rule ? weight : 1
  if (policy.mode === 'shadow') return policy.rule && policy.rule.kind !== 'spacing' ? weight : plain
  const most = refuseAboveBurst(policy, weight, what)
  if (most === null) return plain
  const kept = priority === null ? 0 : keptBack(policy, priority)
  if (weight > most - kept)
    throw new SluiceError(
      'limit.weight.above_burst',
      `${what}: a job of weight ${weight} and priority ${priority} can never start: ${kept} of ${most} units are kept for jobs at or above priority ${policy.headroom?.priority}. Raise its priority, or split the job.`,
    )
  return weight
}

/**
 * The most units that one start may take; null: the limit counts no units.
 * @throws {SluiceError} `limit.weight.above_burst`
 */
function refuseAboveBurst({ rule }: LimitPolicy, weight: number, what: string): number | null {
  if (!rule || rule.kind === 'spacing') return null
  const most = rule.kind === 'rate' ? rule.burst : rule.max
  if (weight <= most) return most
  throw new SluiceError(
    'limit.weight.above_burst',
    `${what}: a job of weight ${weight} can never start under a ${rule.kind === 'rate' ? 'burst' : 'max'} of ${most}. Raise that, or split the job.`,
  )
}

/** Reads the listed limits of a caller. @throws {SluiceError} `option.invalid` */
export function specsOf(limits: readonly (Limit | LimitUse<never>)[] | undefined, what: string): UseSpec<never>[] {
  return limits === undefined ? [] : checkLimits(limits, what).map((use) => useOf(use))
}

/** A queue's limit whose key is computed from the input counts as the job's own. */
export function dependsOnJob(spec: { readonly key: { readonly kind: string } }): boolean {
  return spec.key.kind === 'fn' || spec.key.kind === 'path'
}
