import type { Clock } from '../base/clock.ts'
import { mayPass, SluiceError } from '../base/errors.ts'
import { settlesWithin } from '../base/promises.ts'
import type { BucketName, BucketUse, LimitBackend } from '../limiter/contract/limiter.ts'
import { checkCharge } from '../policy/limits/limit.ts'
import { checkUnits } from '../policy/limits/define.ts'
import type { LimitDefinition, LimitPolicy } from '../policy/limits/limit.ts'
import { checkShared } from '../policy/limits/pace.ts'
import { partitionKey, SHARED_KEY } from '../policy/limits/partition-key.ts'
import { denied } from './access.ts'
import { type LimitedJob, type LimitRules, mostOf } from './limit-rules.ts'
import { notFound, Refusal } from './refusal.ts'
import { isOwn, ownName, splitName } from './tenant.ts'
import type { TenantNames } from './tenant-names.ts'

const MOST_KNOWN = 10_000
/** A backend outside of this process that answers later counts as one that cannot be reached. */
const ANSWERS_WITHIN_MS = 2000
/** A tenant charges no budget of all that is closed for longer. */
const MOST_CLOSED_US = 3_600_000_000

/** A bucket as a caller names it. */
export interface NamedBucket {
  readonly limit: string
  readonly key?: string | number | undefined
}

/** The parts of the budgets. */
export interface BudgetsOptions {
  readonly limits: LimitRules
  readonly names: TenantNames
  /** The backend; its names of limits are the stored ones. */
  readonly backend: () => Promise<LimitBackend>
  /** The limits that the backend has without this server's configuration. */
  readonly stored: () => Promise<readonly LimitDefinition[]>
  /** The backend is the store of the jobs: it keeps guaranteed shares. */
  readonly isStore: boolean
  /** The backend lives in this process, which its answers need not be awaited from outside. */
  readonly isLocal: boolean
  readonly clock: Clock
  /** Ends what the server has opened. */
  readonly close: () => Promise<void>
}

/** The budgets that requests ask for, by the names that callers use: a tenant's limits are its own. */
export class Budgets {
  readonly #options: BudgetsOptions
  /** Stored names that the backend knew when it was asked last. */
  readonly #known = new Set<string>()

  constructor(options: BudgetsOptions) {
    this.#options = options
  }

  /**
   * Calls the backend, and waits for at most 2 s, or for so much longer as the call itself may wait.
   * @param late gets the answer that comes after its caller was told that there is none
   * @throws {Refusal} 503 where the backend cannot be reached, or does not answer in time
   */
  async call<T>(
    work: (backend: LimitBackend) => Promise<T>,
    late: (answer: T) => unknown = () => undefined,
    waitMs = 0,
  ): Promise<T> {
    const { backend, clock, isLocal } = this.#options
    try {
      const answer = work(await backend())
      if (isLocal || (await settlesWithin(clock, answer, ANSWERS_WITHIN_MS + waitMs))) return await answer
      answer.then(late).catch(() => undefined)
      throw new Error(`no answer within ${ANSWERS_WITHIN_MS + waitMs} ms`)
    } catch (cause) {
      if (cause instanceof Refusal || (cause instanceof SluiceError && !mayPass(cause))) throw cause
      throw new Refusal(503, 'backend_error', 'The server cannot reach the backend of its limits.', {
        retryable: true,
        details: { reason: 'limiter.backend_down' },
        headers: { 'Retry-After': '1' },
        cause,
      })
    }
  }

  close(): Promise<void> {
    return this.#options.close()
  }

  /**
   * The bucket that a tenant's name means. @throws {Refusal} 403 for another tenant's budget of a shared limit
   * @throws {SluiceError} `limit.key.invalid`, `limit.key.missing`
   */
  bucket(tenant: string, { limit, key }: NamedBucket): BucketName {
    const { limits } = this.#options
    if (splitName(limit).tenant !== '') throw notFound('limit', limit)
    if (tenant !== '' && limits.isShared(limit) && limits.isKeyed(limit) && key !== undefined && key !== tenant)
      throw denied(`All tenants share the limit ${limit}. A tenant may use its own key only.`)
    const job = callOf(tenant)
    const found = limits.names().includes(limit) ? limits.keyOf(limit, key, job) : keyOf(limit, key)
    return { limit: limits.storedName(tenant, limit), key: found ?? SHARED_KEY }
  }

  /** The buckets of a request, each once, sorted by limit and key. */
  async uses(
    tenant: string,
    asked: readonly (NamedBucket & { readonly weight?: number | undefined })[],
  ): Promise<BucketUse[]> {
    const uses = new Map<string, BucketUse>()
    for (const { weight: units = 1, ...named } of asked) {
      const name = this.bucket(tenant, named)
      const weight = checkUnits(units, `limit ${named.limit}`)
      for (const use of [{ ...name, weight }, ...this.#commonUses(tenant, named.limit, weight)]) {
        const id = `${use.limit}\0${use.key}`
        if ((uses.get(id)?.weight ?? 0) < use.weight) uses.set(id, use)
      }
    }
    // A single unit is below any burst.
    if ([...uses.values()].some(({ weight }) => weight > 1)) await this.#checkWeights([...uses.values()])
    return [...uses].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, use]) => use)
  }

  /**
   * Corrects what a start cost. A tenant returns no units to a budget that others have started by, since they would be
   * others' units as well. @throws {Refusal} 403 for such units, 404 for a limit that was never defined
   * @throws {SluiceError} `option.invalid` for a limit that counts no units, and the codes of `bucket`
   */
  async charge(tenant: string, named: NamedBucket, units: number, atUs: number): Promise<void> {
    const { limits } = this.#options
    const { limit } = named
    const bucket = this.bucket(tenant, named)
    const isOfAll = limits.isOfAll(tenant, limit, bucket.key)
    if (units < 0 && isOfAll)
      throw denied(`All tenants share the limit ${limit}. Return its units with a request without a tenant.`)
    const known = await this.call((backend) => backend.inspect(bucket))
    const policy = known?.policy ?? (await this.define(tenant, bucket.limit))
    checkCharge(limit, policy)
    if (isOfAll) checkShared(limit, policy, units)
    if (isOfAll && units > 0 && (known?.nextInUs ?? 0) > MOST_CLOSED_US)
      throw denied(`All tenants share the limit ${limit}, and it is closed for more than an hour already.`)
    await this.call((backend) => backend.charge(bucket, units, atUs))
  }

  /**
   * Defines a limit of the configuration for a tenant that uses it for the first time.
   * @throws {Refusal} 404 for a limit that was never defined
   */
  async define(tenant: string, stored: string): Promise<LimitPolicy> {
    const { limits, names } = this.#options
    const name = splitName(stored).name
    const definition = limits.definition(tenant, name)
    if (!definition) throw notFound('limit', name)
    await names.admit('limits', tenant, [definition.name])
    await this.call((backend) => backend.define([definition]))
    return definition.policy
  }

  /**
   * Makes sure that the limit of a bucket is defined, for verbs that ignore an unknown one.
   * @param isLost the backend has said that it does not know it
   * @throws {Refusal} 404
   */
  async ensure(tenant: string, bucket: BucketName, isLost = false): Promise<void> {
    if (this.#known.has(bucket.limit) && !isLost) return
    if ((await this.call((backend) => backend.inspect(bucket))) === null) await this.define(tenant, bucket.limit)
    if (this.#known.size >= MOST_KNOWN) this.#known.clear()
    this.#known.add(bucket.limit)
  }

  /** The limits that a tenant may use, by their own names. */
  async limits(tenant: string): Promise<ReadonlyMap<string, LimitPolicy>> {
    const { limits, stored } = this.#options
    const known = (await stored()).filter(({ name }) => isOwn(tenant, name) || limits.isShared(name))
    const configured = limits.names().flatMap((name) => limits.definition(tenant, name) ?? [])
    return new Map([...configured, ...known].map(({ name, policy }) => [splitName(name).name, policy]))
  }

  /** The bucket of the common limit that a start pays to as well. @throws {SluiceError} `policy.invalid` */
  #commonUses(tenant: string, limit: string, weight: number): readonly BucketUse[] {
    const { limits, isStore } = this.#options
    const found = limits.commonUses(limit, weight, callOf(tenant))
    const [common] = found
    if (common && !isStore)
      throw new SluiceError(
        'policy.invalid',
        `limit ${limit} guarantees a share of ${common.name}, which only the store of the jobs keeps. Ask for ${common.name} too, with a limit that has no of.`,
      )
    return found.map(({ use }) => use)
  }

  async #checkWeights(uses: readonly BucketUse[]): Promise<void> {
    const { limits, stored } = this.#options
    const known = new Map((await stored()).map(({ name, policy }) => [name, policy]))
    for (const { limit, weight } of uses) {
      const { tenant, name } = splitName(limit)
      const policy = known.get(limit) ?? limits.definition(tenant, name)?.policy
      if (policy && weight > mostOf(policy))
        throw new SluiceError(
          'limit.weight.above_burst',
          `limit ${name}: a start of weight ${weight} can never be under a bound of ${mostOf(policy)}. Raise that, or split the work.`,
        )
    }
  }
}

/** A call of plain code, as a job whose limits are resolved. */
function callOf(tenant: string): LimitedJob {
  return { type: 'limiter', queue: '', args: [], meta: {}, tenant }
}

/** The name of a bucket as its owner says it. */
export function shownBucket({ limit, key }: BucketName): { limit: string; key: string | null } {
  return { limit: splitName(limit).name, key: key === SHARED_KEY ? null : key }
}

/** The stored id of a tenant's permit or reservation: no tenant can return another's. Null: there is none of that id. */
export function storedId(tenant: string, id: string): string | null {
  return splitName(id).name === id ? ownName(tenant, id) : null
}

/** The stored name of a bucket that was answered before. */
export function storedBucket(
  limits: LimitRules,
  tenant: string,
  { limit, key }: { readonly limit: string; readonly key?: string | null | undefined },
): BucketName {
  if (splitName(limit).tenant !== '') throw notFound('limit', limit)
  return { limit: limits.isShared(limit) ? limit : ownName(tenant, limit), key: key ?? SHARED_KEY }
}

function keyOf(limit: string, key: string | number | undefined): string | null {
  if (key === undefined) return SHARED_KEY
  const found = partitionKey(key, 'fail', `limit ${limit}`)
  return found.kind === 'key' ? found.key : null
}
