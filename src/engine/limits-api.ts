import { SluiceError } from '../base/errors.ts'
import type { Limit } from '../policy/define-limit.ts'
import type { LimitPolicy } from '../policy/limit.ts'
import type { BucketReport, Store } from '../store/store.ts'

/** One bucket as it stands now. */
export interface BucketView {
  readonly limit: string
  /** The partition key; null for the one bucket of a limit without keys. */
  readonly key: string | null
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
}

/** A declared limit. */
export interface LimitView {
  readonly name: string
  readonly policy: LimitPolicy
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
  readonly waiting: number
  /** When the first that waits for this bucket, of whatever queue, may start; null when a permit has to return. */
  readonly nextStart: Date | null
}

/** What every limit has left, and who waits. */
export class LimitsApi {
  readonly #store: () => Promise<Store>

  constructor(store: () => Promise<Store>) {
    this.#store = store
  }

  /** Every declared limit. */
  async list(): Promise<LimitView[]> {
    return (await (await this.#store()).limits()).map(({ name, policy }) => ({ name, policy }))
  }

  /**
   * The buckets of a limit that are or were in use; with a key, that one, which reads as full when it was never used.
   * @throws limit.unknown
   */
  async inspect(limit: Limit | string, key?: string | number): Promise<BucketView[]> {
    const store = await this.#store()
    const name = typeof limit === 'string' ? limit : limit.name
    if (!(await store.limits()).some((each) => each.name === name))
      throw new SluiceError('limit.unknown', `No limit ${name} is defined in this store.`)
    return (await store.inspect(name, key === undefined ? undefined : String(key))).map(toView)
  }

  /**
   * How many jobs wait for budget, by queue and bucket, the longest first. It counts every job that waits.
   *
   * @param options.rows 1 to 1,000; 100 by default. The total counts all.
   * @throws option.invalid
   */
  async waiting(options: { readonly rows?: number } = {}): Promise<WaitingView> {
    const { rows = 100 } = options
    if (!(Number.isInteger(rows) && rows >= 1 && rows <= 1000))
      throw new SluiceError('option.invalid', `limits.waiting got rows ${String(rows)}; give 1 to 1,000`)
    const found = await (await this.#store()).throttled(rows)
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

function toView({ key, nextStartUs, drainedUs, ...report }: BucketReport): BucketView {
  const date = (us: number | null): Date | null => (us === null ? null : new Date(us / 1000))
  return { ...report, key: key === '' ? null : key, nextStart: date(nextStartUs), drained: date(drainedUs) }
}
