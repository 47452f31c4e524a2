import type { Clock } from '../../base/clock.ts'
import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import type { Limit } from '../../policy/limits/define.ts'
import type { Key } from '../../policy/limits/key-path.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { NO_POLICY } from '../../policy/limits/timeline.ts'
import type { PolicyChange } from '../../policy/limits/override.ts'
import { SHARED_KEY } from '../../policy/limits/partition-key.ts'
import type { BucketReport, Store } from '../../store/contract/store.ts'
import type { Events } from '../events/events.ts'
import {
  checkRemark,
  keyOf,
  nameOf,
  type OverrideView,
  type Remark,
  untilUsOf,
  viewOfOverride,
} from './override-view.ts'
import type { Wakeup } from '../events/wakeup.ts'
import type { WaitHistogram, WaitView } from '../events/wait-histogram.ts'

/** Buckets that are counted for a gauge, those with the most waiting jobs first. */
const MOST_BUCKETS = 1_000_000

/** One bucket as it stands now. */
export interface BucketView {
  readonly limit: string
  /** The partition key; null for the one bucket of a limit without keys. */
  readonly key: string | null
  /** Of a limit of scope `worker`: the number of the worker whose own it is, null while none has used it; absent: it is the fleet's. */
  readonly worker?: number | null
  /** Units that could start now. */
  readonly available: number
  /** Units owed beyond the budget. */
  readonly debt: number
  /** Burst, max, or permits. */
  readonly capacity: number
  /** Permits held by active jobs. */
  readonly active: number
  /** Jobs that wait in its line. */
  readonly waiting: number
  readonly nextStart: Date | null
  /** When all that waits now could have started, if nothing else delays it; null when permits decide. */
  readonly drained: Date | null
  /** What of `available` is kept for jobs at or above a priority; null: nothing. */
  readonly headroom: { readonly units: number; readonly priority: number } | null
  /** Overrides and pauses in force for it, of the limit as a whole or of this key. */
  readonly overrides: readonly OverrideView[]
}

/** A declared limit. */
export interface LimitView {
  readonly name: string
  /** As it is defined; what overrides make of it is seen at each bucket. */
  readonly policy: LimitPolicy
  readonly version: number
  /** What the store keeps of the definition cannot be read: nothing starts until it is defined again, and `policy` is one without permits. */
  readonly unreadable?: true
  /** Overrides and pauses in force, of the limit as a whole or of one of its keys. */
  readonly overrides: readonly OverrideView[]
}

/** How many jobs wait for budget, and where. */
export interface WaitingView {
  /** Jobs that a closed bucket holds back; they are available in every other respect. */
  readonly waiting: number
  /** One row for each queue and bucket, the longest first. */
  readonly rows: readonly WaitingRow[]
}

/** Jobs of one queue that wait for one bucket. */
export interface WaitingRow {
  readonly queue: string
  readonly limit: string
  /** The partition key; null for the one bucket of a limit without keys. */
  readonly key: string | null
  /** Of a limit of scope `worker`: whose line it is; the same jobs stand in those of other workers too. */
  readonly worker?: number
  readonly waiting: number
  /** When the first that waits for this bucket, of whatever queue, may start; null when a permit has to return. */
  readonly nextStart: Date | null
}

/** What the limits of an engine need of it. */
export interface LimitHooks {
  readonly store: () => Promise<Store>
  readonly clock: Clock
  readonly events: Events
  readonly waits: WaitHistogram
  readonly wakeup: Wakeup
}

/** What every limit has left and who waits, and what is changed of it while it runs. */
export class LimitsApi {
  readonly #hooks: LimitHooks

  constructor(hooks: LimitHooks) {
    this.#hooks = hooks
  }

  /** Every declared limit, those also whose definition cannot be read any more. */
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
   * The buckets of a limit that are or were in use; with a key, that one, which reads as full when it was never used.
   * @throws limit.unknown
   */
  async inspect(limit: Limit | string, key?: Key): Promise<BucketView[]> {
    const store = await this.#hooks.store()
    const name = nameOf(limit)
    await requireLimit(store, name)
    return (await store.inspect(name, keyOf(key, name) ?? undefined)).map(toView)
  }

  /**
   * Changes numbers of a limit while it runs, in every process and at once: for one key, or, without one, for all. What it does not
   * name stays as it is defined. A key's override wins over the limit's, and that over the definition; the level carries over, so that
   * nothing is refilled for free. A second override of the same key takes the place of the first.
   *
   * @param options.until when it ends by itself; by default it stands until it is cleared, over restarts and new definitions.
   * @throws limit.unknown, policy.invalid for a change that does not fit the limit, option.invalid
   */
  async override(
    limit: Limit | string,
    key: Key | undefined,
    change: PolicyChange,
    options: { until?: Duration | Date } & Remark = {},
  ): Promise<void> {
    if (typeof change !== 'object' || change === null)
      throw new SluiceError('policy.invalid', `limit ${nameOf(limit)}: give what the override changes, as { rate: 5 }`)
    await this.#change(limit, key, 'override', change, options)
  }

  /** Ends an override before its time; false: there was none. @throws limit.unknown */
  clearOverride(limit: Limit | string, key?: Key, options: Remark = {}): Promise<boolean> {
    return this.#change(limit, key, 'override', null, options)
  }

  /**
   * Holds all further starts of a limit, or of one key of it; what runs goes on. A pause stands beside overrides, and wins.
   * @throws limit.unknown, option.invalid
   */
  async pause(limit: Limit | string, key?: Key, options: { until?: Duration | Date } & Remark = {}): Promise<void> {
    await this.#change(limit, key, 'pause', { concurrency: 0 }, options)
  }

  /** Ends a pause; false: there was none. A key stays held while its limit as a whole is paused. @throws limit.unknown */
  resume(limit: Limit | string, key?: Key, options: Remark = {}): Promise<boolean> {
    return this.#change(limit, key, 'pause', null, options)
  }

  /**
   * Closes one bucket until then, as a reply of 429 does: a rate then holds one unit, so that it resumes without a burst.
   * @param key without one: the bucket of a limit without keys. To hold all keys, use `pause` with `until`.
   * @throws limit.unknown, option.invalid
   */
  async penalize(limit: Limit | string, key: Key | undefined, until: Duration | Date): Promise<void> {
    const store = await this.#hooks.store()
    const name = nameOf(limit)
    await requireLimit(store, name)
    const { clock, events, wakeup } = this.#hooks
    const nowUs = store.nowUs()
    const untilUs = untilUsOf(until, clock, nowUs)
    const bucket = keyOf(key, name) ?? SHARED_KEY
    const adjusted = await store.penalize(name, bucket, untilUs)
    wakeup.notify('work')
    if (!adjusted) return
    const at = new Date(clock.now() + (untilUs - nowUs) / 1000)
    events.emit('rate_limit.dynamic_adjusted', { limit: name, key: bucket, until: at, remaining: null })
  }

  /** The record of overrides and pauses, in force and over, newest first: who, why, from when, until when. @throws limit.unknown */
  async overrides(limit?: Limit | string): Promise<OverrideView[]> {
    const store = await this.#hooks.store()
    const name = limit === undefined ? undefined : nameOf(limit)
    if (name !== undefined) await requireLimit(store, name)
    return (await store.overrides(name)).toSorted((a, b) => b.sinceUs - a.sinceUs).map(viewOfOverride)
  }

  /** The same total by queue and limit, over all keys: for a gauge. */
  async waitingByLimit(): Promise<{ readonly limit: string; readonly queue: string; readonly waiting: number }[]> {
    const totals = new Map<string, { limit: string; queue: string; waiting: number }>()
    for (const { limit, queue, waiting } of (await (await this.#hooks.store()).throttled(MOST_BUCKETS)).rows) {
      const name = JSON.stringify([limit, queue])
      const total = totals.get(name) ?? { limit, queue, waiting: 0 }
      totals.set(name, total)
      total.waiting += waiting
    }
    return [...totals.values()]
  }

  /** How long jobs waited for budget, by limit: the starts of this process since the engine was made. */
  waits(): WaitView[] {
    return this.#hooks.waits.view()
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
    const untilUs = options.until === undefined ? null : untilUsOf(options.until, this.#hooks.clock, store.nowUs())
    const remark = checkRemark(options)
    const changed = await store.override({ limit: name, key: keyOf(key, name), kind, change, untilUs, ...remark })
    if (changed) this.#hooks.wakeup.notify('work')
    return changed
  }

  /**
   * How many jobs wait for budget, by queue and bucket, the longest first. It counts every job that waits.
   *
   * @param options.rows 1 to 1,000; 100 by default. The total counts all.
   * @throws option.invalid
   */
  async waiting(options: { readonly rows?: number } = {}): Promise<WaitingView> {
    checkOptions(options, ['rows'], 'limits.waiting')
    const { rows = 100 } = options
    if (!(Number.isInteger(rows) && rows >= 1 && rows <= 1000))
      throw new SluiceError('option.invalid', `limits.waiting got rows ${show(rows)}; give 1 to 1,000`)
    const found = await (await this.#hooks.store()).throttled(rows)
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
    throw new SluiceError('limit.unknown', `No limit ${name} is defined in this store.`)
}

function toView({ key, nextStartUs, drainedUs, headroom, overrides, ...report }: BucketReport): BucketView {
  const date = (us: number | null): Date | null => (us === null ? null : new Date(us / 1000))
  return {
    ...report,
    key: key === SHARED_KEY ? null : key,
    nextStart: date(nextStartUs),
    drained: date(drainedUs),
    headroom: headroom ?? null,
    overrides: overrides.map(viewOfOverride),
  }
}
