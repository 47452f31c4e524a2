import { waitLists } from './wait-lists.ts'
import type { Clock } from '../../base/clock.ts'
import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { brief, checkOptions, show } from '../../base/options.ts'
import type { AcquireOptions, RunContext } from '../../limiter/client/calls.ts'
import type { Limiter } from '../../limiter/client/limiter.ts'
import type { Permit } from '../../limiter/client/permit.ts'
import type { Use } from '../../limiter/client/uses.ts'
import type { Limit } from '../../policy/limits/define.ts'
import { checkRemark, keyOf, lengthUsOf, nameOf, type Remark } from '../../policy/limits/change-terms.ts'
import type { Key } from '../../policy/limits/key-path.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import { NO_POLICY } from '../../policy/limits/timeline.ts'
import { changeIn, type PolicyChange } from '../../policy/limits/override.ts'
import { SHARED_KEY } from '../../policy/limits/partition-key.ts'
import type { Store } from '../../store/contract/store.ts'
import { type BucketView, bucketViewOf } from './bucket-view.ts'
import type { Events } from '../events/events.ts'
import { type OverrideView, viewOfOverride } from './override-view.ts'
import type { PlainCode } from '../run/plain-code.ts'
import { replayJobs, type ReplayOptions, type StoreReplay } from './replay.ts'
import type { Wakeup } from '../events/wakeup.ts'
import type { WaitHistogram, WaitView } from '../events/wait-histogram.ts'
import type { BucketName, Changing } from '../../jobs/hold.ts'

/** The most buckets counted for a gauge, those with the most waiting jobs first. */
const MOST_BUCKETS = 1_000_000

/** A declared limit. */
export interface LimitView {
  readonly name: string
  /** Its definition. The buckets show the effect of overrides. */
  readonly policy: LimitPolicy
  readonly version: number
  /**
   * The stored definition cannot be read. Nothing starts until it is defined again, and `policy` is one without
   * permits.
   */
  readonly unreadable?: true
  /** Active overrides and pauses of the whole limit or of one of its keys. */
  readonly overrides: readonly OverrideView[]
}

/** The number of jobs that wait for budget, and their buckets. */
export interface WaitingView {
  /** Jobs that wait for a closed bucket, and are otherwise available. */
  readonly waiting: number
  /** One row for each queue and bucket, the longest first. */
  readonly rows: readonly WaitingRow[]
}

/** Jobs of one queue that wait for one bucket. */
export interface WaitingRow {
  readonly queue: string
  readonly limit: string
  /** The partition key; null: the one bucket of a limit without keys. */
  readonly key: string | null
  /**
   * The worker of this wait list, for a limit of scope `worker`. The same jobs are in the lists of other workers too.
   */
  readonly worker?: number
  readonly waiting: number
  /** The next possible start of the first job that waits for this bucket, of any queue; null: a permit must return. */
  readonly nextStart: Date | null
}

/** The engine's parts that its limits use. */
export interface LimitHooks {
  readonly store: () => Promise<Store>
  readonly clock: Clock
  readonly events: Events
  readonly waits: WaitHistogram
  readonly wakeup: Wakeup
  readonly changing: Changing
  /** Plain code under the store's budgets; null: the store was only opened to look at it. */
  readonly budgets: PlainCode | null
}

/** The remaining budget and the wait list of every limit, and changes of limits at run time. */
export class LimitsApi {
  readonly #hooks: LimitHooks

  constructor(hooks: LimitHooks) {
    this.#hooks = hooks
  }

  /** Every declared limit, also those with an unreadable definition. */
  async list(): Promise<LimitView[]> {
    const store = await this.#hooks.store()
    const inForce = (await store.overrides()).filter((each) => each.ended === null)
    const lost = (await store.unreadable()).filter(({ kind }) => kind === 'limit')
    const views: Omit<LimitView, 'overrides'>[] = [
      ...(await store.limits()),
      ...lost.map(({ name }) => ({ name, policy: CLOSED, version: 0, unreadable: true }) as const),
    ]
    return views.map(({ name, policy, version, unreadable }) => ({
      name,
      policy,
      version,
      ...(unreadable && { unreadable }),
      overrides: inForce.filter((each) => each.limit === name).map(viewOfOverride),
    }))
  }

  /**
   * The used buckets of a limit. With a key only that bucket, which reads as full if it was never used.
   * @throws {SluiceError} `limit.unknown`
   */
  async inspect(limit: Limit | string, key?: Key): Promise<BucketView[]> {
    const store = await this.#hooks.store()
    const name = nameOf(limit)
    await requireLimit(store, name)
    return (await store.inspect(name, keyOf(key, name) ?? undefined)).map(bucketViewOf)
  }

  /** Inspects the buckets of several keys at once; those that were never used are left out. */
  async inspectKeys(limit: string, keys: readonly string[]): Promise<BucketView[]> {
    return (await (await this.#hooks.store()).inspectKeys(limit, keys)).map(bucketViewOf)
  }

  /**
   * Changes numbers of a limit at run time, in every process at once: for one key, or without one for all keys. Other
   * numbers stay as defined. A key's override wins over the limit's, and that over the definition. The level carries
   * over, so that no bucket is refilled for free. A second override of the same key replaces the first.
   *
   * @param change the new numbers, such as `{ rate: 5 }`, or a text such as `'5/s'` or `'4 at once'`.
   * @param options.until the end of the override. Default: it stays until it is cleared, over restarts and new
   * definitions.
   * @throws {SluiceError} `limit.unknown`, `policy.invalid` for a change that does not fit the limit, `option.invalid`
   */
  async override(
    limit: Limit | string,
    key: Key | undefined,
    change: PolicyChange | string,
    options: { until?: Duration | Date } & Remark = {},
  ): Promise<void> {
    const name = nameOf(limit)
    const found = changeIn(change, await this.#policyFor(change, name), `limit ${brief(name)}`)
    await this.#change(limit, key, 'override', found, options)
  }

  /** The definition says whether a text means a rate or a window. */
  async #policyFor(change: unknown, name: string): Promise<LimitPolicy> {
    if (typeof change !== 'string') return NO_POLICY
    const found = (await (await this.#hooks.store()).limits()).find((each) => each.name === name)
    return found?.policy ?? NO_POLICY
  }

  /** Ends an override early; false: there was none. @throws {SluiceError} `limit.unknown` */
  clearOverride(limit: Limit | string, key?: Key, options: Remark = {}): Promise<boolean> {
    return this.#change(limit, key, 'override', null, options)
  }

  /**
   * Stops all further starts of a limit, or of one key of it; running jobs continue. A pause is independent of
   * overrides, and wins over them.
   * @throws {SluiceError} `limit.unknown`, `option.invalid`
   */
  async pause(limit: Limit | string, key?: Key, options: { until?: Duration | Date } & Remark = {}): Promise<void> {
    await this.#change(limit, key, 'pause', { concurrency: 0 }, options)
  }

  /**
   * Ends a pause; false: there was none. A key stays paused while its whole limit is paused.
   * @throws {SluiceError} `limit.unknown`
   */
  resume(limit: Limit | string, key?: Key, options: Remark = {}): Promise<boolean> {
    return this.#change(limit, key, 'pause', null, options)
  }

  /**
   * Closes one bucket until an instant, as a reply of 429 does. A rate then holds one unit, so that it resumes without
   * a burst.
   * @param key absent: the bucket of a limit without keys. To stop all keys, use `pause` with `until`.
   * @throws {SluiceError} `limit.unknown`, `option.invalid`
   */
  async penalize(limit: Limit | string, key: Key | undefined, until: Duration | Date): Promise<void> {
    const store = await this.#hooks.store()
    const name = nameOf(limit)
    await requireLimit(store, name)
    const { clock, events, wakeup } = this.#hooks
    const nowUs = store.nowUs()
    const untilUs = nowUs + lengthUsOf(until, clock)
    const bucket = keyOf(key, name) ?? SHARED_KEY
    const isMeant = (use: BucketName): boolean => use.limit === name && use.key === bucket
    const adjusted = await this.#hooks.changing(isMeant, () => store.penalize(name, bucket, untilUs))
    wakeup.notify('work')
    if (!adjusted) return
    const at = new Date(clock.now() + (untilUs - nowUs) / 1000)
    events.emit('rate_limit.dynamic_adjusted', { limit: name, key: bucket, until: at, remaining: null })
  }

  /**
   * The record of overrides and pauses, active and ended, newest first: author, reason, start and end.
   * @throws {SluiceError} `limit.unknown`
   */
  async overrides(limit?: Limit | string): Promise<OverrideView[]> {
    const store = await this.#hooks.store()
    const name = limit === undefined ? undefined : nameOf(limit)
    if (name !== undefined) await requireLimit(store, name)
    return (await store.overrides(name)).toSorted((a, b) => b.sinceUs - a.sinceUs).map(viewOfOverride)
  }

  /** The same total by queue and limit, over all keys: for a gauge. */
  async waitingByLimit(): Promise<{ readonly limit: string; readonly queue: string; readonly waiting: number }[]> {
    const totals = new Map<string, { limit: string; queue: string; waiting: number }>()
    for (const { limit, queue, waiting } of (await waitLists(await this.#hooks.store(), MOST_BUCKETS)).rows) {
      const name = JSON.stringify([limit, queue])
      const total = totals.get(name) ?? { limit, queue, waiting: 0 }
      totals.set(name, total)
      total.waiting += waiting
    }
    return [...totals.values()]
  }

  /**
   * Says what a policy would have done to the jobs that the store keeps: waits, losses, the use of the budget and the
   * worst keys. A job arrives when it is enqueued, and starts as soon as the budget of its key admits it. Other limits,
   * priorities, delays and retries do not count.
   *
   * @param policy an object such as `{ rate: 100, per: '1m' }`, or a text such as `'100/m'`.
   * @throws {SluiceError} `policy.invalid`, `option.invalid`, `duration.invalid`, `limit.key.invalid`,
   * `limit.key.threw`, `limit.weight.invalid`, `limit.weight.threw`
   */
  async replay(policy: Policy | string, options: ReplayOptions): Promise<StoreReplay> {
    return replayJobs(await this.#hooks.store(), policy, options)
  }

  /** The waits of jobs for budget, by limit: the starts of this process since the engine was made. */
  waits(): WaitView[] {
    return this.#hooks.waits.view()
  }

  /**
   * Waits for the units of all uses, and takes them at once, from the budgets of this store's jobs. It waits among the
   * jobs that need these budgets, by priority and in turn. Release the permit at the end, in a `finally`.
   * @param options.wait `true` (default): without bound; `false`: an answer at once; or a duration.
   * @throws {RateLimitRejected} the units will not be there in time
   * @throws {SluiceError} `limit.conflict`, `limit.key.invalid`, `limit.weight.above_burst`, `limiter.full`,
   * `limiter.closed` once the engine has stopped; the reason of an aborted signal
   */
  async acquire(uses: readonly Use[], options?: AcquireOptions): Promise<Permit> {
    return (await this.#limiter(uses)).acquire(uses, options)
  }

  /**
   * Acquires, calls the function, and releases. A `RateLimited` that it throws closes the budget, and is thrown on.
   * @throws what `acquire` and the function throw
   */
  async run<T>(uses: readonly Use[], work: (ctx: RunContext) => Promise<T> | T, options?: AcquireOptions): Promise<T> {
    return (await this.#limiter(uses)).run(uses, work, options)
  }

  #limiter(uses: readonly Use[]): Promise<Limiter> {
    const { budgets } = this.#hooks
    if (!budgets) throw new RangeError('a store that was opened to look at it grants no budget')
    return budgets.limiter(uses)
  }

  async #change(
    limit: Limit | string,
    key: Key | undefined,
    kind: 'override' | 'pause',
    change: PolicyChange | null,
    options: { until?: Duration | Date } & Remark,
  ): Promise<boolean> {
    const own = kind === 'pause' ? 'pause' : 'override'
    checkOptions(
      options,
      change === null ? REMARK : ['until', ...REMARK],
      change === null ? ENDING[own] : `limits.${own}`,
    )
    const store = await this.#hooks.store()
    const name = nameOf(limit)
    const untilUs = options.until === undefined ? null : store.nowUs() + lengthUsOf(options.until, this.#hooks.clock)
    const remark = checkRemark(options)
    const request = { limit: name, key: keyOf(key, name), kind, change, untilUs, ...remark }
    const isMeant = (use: BucketName): boolean =>
      use.limit === name && (request.key === null || use.key === request.key)
    const changed = await this.#hooks.changing(isMeant, () => store.override(request))
    if (changed) this.#hooks.wakeup.notify('work')
    return changed
  }

  /**
   * The jobs that wait for budget, by queue and bucket, the longest first. It counts every job that waits.
   *
   * @param options.rows 1 to 1,000; default 100. The total counts all.
   * @throws {SluiceError} `option.invalid`
   */
  async waiting(options: { readonly rows?: number } = {}): Promise<WaitingView> {
    checkOptions(options, ['rows'], 'limits.waiting')
    const { rows = 100 } = options
    if (!(Number.isInteger(rows) && rows >= 1 && rows <= 1000))
      throw new SluiceError('option.invalid', `limits.waiting: rows is invalid: ${show(rows)}. Expected 1 to 1,000.`)
    const found = await waitLists(await this.#hooks.store(), rows)
    return {
      waiting: found.waiting,
      rows: found.rows.map(({ nextStartUs, key, ...row }) => ({
        ...row,
        key: key === '' ? null : key,
        nextStart: nextStartUs === null ? null : new Date(nextStartUs / 1000),
      })),
    }
  }
}

const CLOSED: LimitPolicy = { ...NO_POLICY, concurrency: 0 }
const REMARK = ['by', 'reason'] as const
const ENDING = { override: 'limits.clearOverride', pause: 'limits.resume' } as const

async function requireLimit(store: Store, name: string): Promise<void> {
  const isDefined = (await store.limits()).some((each) => each.name === name)
  if (!isDefined && !(await store.unreadable()).some((each) => each.kind === 'limit' && each.name === name))
    throw new SluiceError('limit.unknown', `The limit ${brief(name)} is not defined in this store.`)
}
