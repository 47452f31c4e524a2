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
}

function toView({ key, nextStartUs, drainedUs, ...report }: BucketReport): BucketView {
  const date = (us: number | null): Date | null => (us === null ? null : new Date(us / 1000))
  return { ...report, key: key === '' ? null : key, nextStart: date(nextStartUs), drained: date(drainedUs) }
}
