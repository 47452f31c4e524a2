import { SluiceError } from '../../base/errors.ts'
import { brief, show } from '../../base/options.ts'
import { checkLimits, checkUnits, isLimitUse, type LimitUse, notALimit, useOf } from '../../policy/limits/define.ts'
import { USE } from '../../policy/limits/limit-use.ts'
import type { LimitDefinition, LimitPolicy } from '../../policy/limits/limit.ts'
import { isShortKey, partitionKey, SHARED_KEY } from '../../policy/limits/partition-key.ts'
import type { BucketUse } from '../contract/limiter.ts'

/** A bucket to take from: a limit without keys, `limit.weight(3)`, or `limit.key('acme', { weight: 3 })`. */
export type Use = LimitUse<unknown>

/** The limits of one limiter. */
export class LimiterLimits {
  readonly #policies = new Map<string, LimitPolicy>()
  readonly #adopts: boolean
  readonly #ofJobs: boolean
  /** No limit bounds how long its calls may wait. */
  #isPatient = true
  /** The last use of one bucket, and that bucket: calls for one key often follow each other. */
  #last: unknown = null
  #lastBuckets: readonly BucketUse[] = []

  /** @param adopts a use defines its limit @param ofJobs the limits are those of a store, which treats calls as jobs */
  constructor(adopts = false, ofJobs = false) {
    this.#adopts = adopts
    this.#ofJobs = ofJobs
  }

  /**
   * Adds limits. The same name with the same policy is the same limit.
   * @throws {SluiceError} `option.invalid`, `limit.conflict`
   */
  add(limits: unknown, what: string): readonly LimitDefinition[] {
    this.#last = null
    return checkLimits(limits, `limits of ${what}`).map((each) => {
      if (!('name' in each)) throw notALimit(each, what)
      const { limit: name, policy } = useOf(each)
      refuseOfJobs(name, policy, what, this.#ofJobs)
      if (!this.#ofJobs && longestWaitUs(policy) < Infinity) this.#isPatient = false
      this.#checkSame(name, policy, what)
      this.#policies.set(name, policy)
      return { name, policy, version: policy.version ?? 0 }
    })
  }

  policy(name: string): LimitPolicy | null {
    return this.#policies.get(name) ?? null
  }

  /** How long a call may wait: as it says, and at most as its limits say. A store sees to that itself. */
  waitUsOf(buckets: readonly BucketUse[], waitUs: number): number {
    if (this.#isPatient) return waitUs
    return buckets.reduce((least, { limit }) => {
      const policy = this.#policies.get(limit)
      return policy ? Math.min(least, longestWaitUs(policy)) : least
    }, waitUs)
  }

  /** The policy of a limit. @throws {SluiceError} `limit.unknown` */
  known(name: string, what: string): LimitPolicy {
    const policy = this.#policies.get(name)
    if (policy) return policy
    throw new SluiceError(
      'limit.unknown',
      `${what} names the limit ${brief(name)}, which this limiter does not define. List it in createLimiter({ limits }).`,
    )
  }

  /** The definitions of these limits; of all if no names are given. */
  definitions(names: Iterable<string> = this.#policies.keys()): LimitDefinition[] {
    return [...names].flatMap((name) => {
      const policy = this.#policies.get(name)
      return policy ? [{ name, policy, version: policy.version ?? 0 }] : []
    })
  }

  /**
   * The buckets that a call takes from, each once, sorted by limit and key.
   * @throws {SluiceError} `limit.unknown`, `limit.conflict`, `limit.key.invalid`, `limit.weight.above_burst`,
   * `option.invalid`
   */
  resolve(uses: unknown, what: string): readonly BucketUse[] {
    if (!Array.isArray(uses) || uses.length === 0)
      throw new SluiceError(
        'option.invalid',
        `The uses of ${what} are invalid: ${show(uses)}. Expected a list of at least one, such as [crm.key('acme')].`,
      )
    const [first] = uses as readonly unknown[]
    if (uses.length === 1) {
      if (this.#last !== null && first === this.#last) return this.#lastBuckets
      if (!(isLimitUse(first) && useOf(first).common)) {
        this.#lastBuckets = [this.one(first, what)]
        this.#last = first
        return this.#lastBuckets
      }
    }
    const buckets: BucketUse[] = []
    for (const bucket of (uses as readonly unknown[]).flatMap((use) => this.#both(use, what))) {
      const same = buckets.findIndex((each) => each.limit === bucket.limit && each.key === bucket.key)
      if (same < 0) buckets.push(bucket)
      else if ((buckets[same] as BucketUse).weight < bucket.weight) buckets[same] = bucket
    }
    return buckets.sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1))
  }

  /** The bucket that one use takes from, and that of the common limit of which it has a guaranteed share. */
  #both(use: unknown, what: string): readonly BucketUse[] {
    const own = this.one(use, what)
    const { common, weight } = isLimitUse(use) ? useOf(use) : {}
    if (!common) return [own]
    return [own, this.one({ [USE]: { ...common, weight: common.weight ?? weight } }, what)]
  }

  /** The bucket that one use takes from. */
  one(use: unknown, what: string): BucketUse {
    if (!isLimitUse(use))
      throw new SluiceError(
        'option.invalid',
        `${what} has an invalid use: ${show(use)}. Expected a limit, or a key of one, such as crm.key('acme').`,
      )
    const { limit, policy: given, key, weight } = useOf(use)
    if (!this.#adopts) refuseShare(limit, given, what)
    const policy = this.#policies.get(limit) ?? this.#adopted(limit, given) ?? this.known(limit, what)
    if (given !== policy) this.#checkSame(limit, given, what)
    if (key.kind === 'fn' || key.kind === 'path' || typeof weight === 'function')
      throw new SluiceError(
        'option.invalid',
        `limit ${limit} of ${what} depends on a job's input. Expected ${limit}.key(value) without a job.`,
      )
    return { limit, key: keyOf(key, policy, limit, what), weight: weightOf(weight, policy, limit, what) }
  }

  #adopted(limit: string, policy: LimitPolicy): LimitPolicy | undefined {
    if (!this.#adopts) return undefined
    this.#policies.set(limit, policy)
    return policy
  }

  #checkSame(name: string, policy: LimitPolicy, what: string): void {
    const known = this.#policies.get(name)
    if (!known || known === policy || JSON.stringify(known) === JSON.stringify(policy)) return
    throw new SluiceError(
      'limit.conflict',
      `The limit ${name} is defined twice: by this limiter as ${JSON.stringify(known)}, and in ${what} as ${JSON.stringify(policy)}. Define it once, or rename one of them.`,
    )
  }
}

/** Refuses what only a store keeps, or only jobs have. @throws {SluiceError} `policy.invalid` */
function refuseOfJobs(name: string, policy: LimitPolicy, what: string, ofJobs: boolean): void {
  refuseShare(name, policy, what)
  const field =
    policy.mode === 'shadow'
      ? 'mode'
      : ofJobs
        ? null
        : policy.scope === 'worker'
          ? 'scope'
          : policy.retries === 'free'
            ? 'retries'
            : null
  if (field === null) return
  throw new SluiceError(
    'policy.invalid',
    `${what}: limit ${name} has ${field} '${policy[field]}', which only a store keeps, for its jobs. Remove ${field}.`,
  )
}

/** How long a limit lets a call wait, in µs; `drop`: not at all. */
function longestWaitUs({ maxWaitUs, onLimit }: LimitPolicy): number {
  return onLimit === 'drop' ? 0 : (maxWaitUs ?? Infinity)
}

/** A guaranteed share is an order among the jobs of an engine, and of plain code beside them. */
function refuseShare(name: string, { of }: LimitPolicy, what: string): void {
  if (!of) return
  throw new SluiceError(
    'policy.invalid',
    `${what}: limit ${name} has of, a guaranteed share, which only an engine keeps, for its jobs and for sluice.limits.acquire. Take from ${name} and ${of.limit} in one call, with limits that have no of.`,
  )
}

/** Names a bucket in one text: neither names of limits nor keys hold a NUL. */
export function idOf({ limit, key }: { readonly limit: string; readonly key: string }): string {
  return `${limit}\0${key}`
}

function keyOf(
  key: { readonly kind: string; readonly value?: unknown },
  policy: LimitPolicy,
  limit: string,
  what: string,
): string {
  if (key.kind === 'none') return SHARED_KEY
  if (isShortKey(key.value)) return key.value
  const found = partitionKey(key.value, policy.onMissingKey, named(limit, what))
  return found.kind === 'key' ? found.key : SHARED_KEY
}

/** Only messages need it: a text made for every call would take more time than the decision. */
function named(limit: string, what: string): string {
  return `limit ${limit} of ${what}`
}

function weightOf(weight: number | undefined, { rule, of }: LimitPolicy, limit: string, what: string): number {
  const units = weight === undefined ? 1 : checkUnits(weight, named(limit, what))
  // A guarantee counts units, also beside a rule that counts starts.
  if (!rule || rule.kind === 'spacing') return of?.rule ? units : 1
  const most = rule.kind === 'rate' ? rule.burst : rule.max
  if (units <= most) return units
  throw new SluiceError(
    'limit.weight.above_burst',
    `${named(limit, what)}: a start of weight ${units} can never be under a ${rule.kind === 'rate' ? 'burst' : 'max'} of ${most}. Raise that, or split the work.`,
  )
}
