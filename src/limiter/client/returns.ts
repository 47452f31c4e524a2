import type { Clock } from '../../base/clock.ts'
import { mayPass } from '../../base/errors.ts'
import type { BucketName, HeldPermit } from '../contract/limiter.ts'
import { Unsent } from './unsent.ts'

/** So many of the last returns may be lost with a server that fails over. */
const MOST_RECENT = 1000

/** The parts of the returns. */
export interface ReturnsOptions {
  readonly clock: Clock
  readonly leaseUs: number
  /** Returns a permit. It rejects when the backend cannot be reached. */
  readonly release: (permits: readonly HeldPermit[]) => Promise<void>
  /** Does it without telling whether the backend is up. */
  readonly releaseOnce: (permits: readonly HeldPermit[]) => Promise<void>
  /** Permits of these buckets have returned later than they were given back. */
  readonly returned: (buckets: readonly BucketName[]) => void
}

/** Permits that have to return to their backend, although it could not be reached. */
export class Returns {
  readonly #options: ReturnsOptions
  readonly #unsent: Unsent<HeldPermit>
  /** Those that returned last. */
  readonly #recent: HeldPermit[] = []

  constructor(options: ReturnsOptions) {
    this.#options = options
    this.#unsent = new Unsent({
      clock: options.clock,
      send: (permits) => options.releaseOnce(permits).then(() => []),
      sent: (permits) => options.returned(permits.flatMap(({ of }) => of)),
    })
  }

  /** The permits that have not returned yet. */
  get left(): readonly HeldPermit[] {
    return this.#unsent.left
  }

  /** Returns a permit, now or once the backend can be reached. False: later. @throws what will not pass */
  async give(permit: HeldPermit): Promise<boolean> {
    try {
      await this.#options.release([permit])
      if (this.#recent.push(permit) > MOST_RECENT) this.#recent.shift()
      return true
    } catch (error) {
      if (!mayPass(error)) throw error
      this.keep([permit])
      return false
    }
  }

  /** Permits that the backend may hold, to return until their leases have ended. */
  keep(permits: readonly HeldPermit[]): void {
    this.#unsent.keep(permits, this.#options.leaseUs)
  }

  /** The backend answers again: it may be a replica that has not heard of the last returns. */
  recover(): Promise<void> {
    this.keep(this.#recent.splice(0))
    return this.#unsent.flush()
  }

  /** Ends the tries. */
  end(): void {
    this.#unsent.end()
  }
}
