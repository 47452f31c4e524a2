import type { Clock } from '../../base/clock.ts'
import { mayPass } from '../../base/errors.ts'
import { countsForUs } from '../../policy/limits/pace.ts'
import type { BucketName, ChargeName } from '../contract/limiter.ts'
import { Unsent } from './unsent.ts'
import type { LimiterLimits } from './uses.ts'

/** A refund is tried again for at most this time. */
const LONGEST_US = 86_400_000_000

/** Units that return. */
interface Refund {
  readonly bucket: BucketName
  /** Below 0. */
  readonly units: number
  /** When they were taken, on the backend's clock. */
  readonly atUs: number
  readonly name: ChargeName
}

/** Who learns of late refunds. */
export interface RefundsObserver {
  /** Units of these buckets have returned later than they were given back. */
  refunded(buckets: readonly BucketName[]): void
}

/** The parts of the refunds. */
export interface RefundsOptions {
  readonly clock: Clock
  /** Names the refunds of this process, unlike those of any other. */
  readonly prefix: string
  readonly limits: Pick<LimiterLimits, 'definitions'>
  readonly observer: RefundsObserver
  /** Sends it once, and awaits the answer. It rejects with an error that passes when the backend cannot be reached. */
  readonly charge: (bucket: BucketName, units: number, atUs: number, name: ChargeName) => Promise<void>
  /** The backend carries each out once, however often it is sent. */
  readonly isNamed: () => boolean
}

/**
 * Units on their way back to their backend. Where it knows corrections by name, a refund without an answer is sent again
 * until its units are back, or would have come back by themselves.
 */
export class Refunds {
  readonly #options: RefundsOptions
  readonly #unsent: Unsent<Refund>
  #made = 0

  constructor(options: RefundsOptions) {
    this.#options = options
    this.#unsent = new Unsent({
      clock: options.clock,
      send: async (refunds) => {
        const left = await Promise.all(refunds.map((refund) => this.#tried(refund)))
        return left.filter((refund) => refund !== null)
      },
      sent: (refunds) => options.observer.refunded(refunds.map(({ bucket }) => bucket)),
    })
  }

  /** A name for a correction. */
  name(limit: string): ChargeName {
    const { limits, prefix } = this.#options
    const policy = limits.definitions().find(({ name }) => name === limit)?.policy ?? null
    // A start may count from half a period after its payment.
    const forUs = Math.min(LONGEST_US, 2 * countsForUs(policy))
    return { id: `${prefix}c${++this.#made}`, forUs }
  }

  /** Gives units back: below 0. @throws what the backend refuses, and that it has not answered: then they may return later */
  async give(bucket: BucketName, units: number, atUs: number): Promise<void> {
    const name = this.name(bucket.limit)
    try {
      await this.#options.charge(bucket, units, atUs, name)
    } catch (error) {
      const refund = { bucket, units, atUs, name }
      if (mayPass(error) && this.#options.isNamed()) this.#unsent.keep([refund], name.forUs)
      throw error
    }
  }

  /** Sends those without an answer again, as the backend may answer now. */
  flush(): Promise<void> {
    return this.#unsent.flush()
  }

  /** Tries once more, and no more after that. */
  async end(): Promise<void> {
    await this.#unsent.flush()
    this.#unsent.end()
  }

  /** Null: it is back, or refused. */
  async #tried(refund: Refund): Promise<Refund | null> {
    const { bucket, units, atUs, name } = refund
    return this.#options.charge(bucket, units, atUs, name).then(
      () => null,
      (error: unknown) => (mayPass(error) ? refund : null),
    )
  }
}
