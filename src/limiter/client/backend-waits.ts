import type { Clock, Timer } from '../../base/clock.ts'
import type { SluiceError } from '../../base/errors.ts'
import { RateLimitRejected } from '../../jobs/handler-errors.ts'
import type { BucketUse, Denied, Granted, UnitAnswer, UnitRequest, WaitTerms } from '../contract/limiter.ts'
import type { LimiterLimits } from './uses.ts'
import { full, unknown } from './waiter.ts'

/** How calls of a limiter wait for their units. */
export interface Waits {
  /** The number of calls that wait. */
  readonly waiting: number
  /** Takes the units at once; null: they are not there, or the backend cannot say without a turn of the event loop. */
  acquireNow(uses: readonly BucketUse[], priority: number): Granted | null
  /**
   * Waits for the units of some buckets.
   * @param waitUs 0: an answer at once; Infinity: without bound
   */
  acquire(uses: readonly BucketUse[], priority: number, waitUs: number, signal?: AbortSignal): Promise<Granted>
  /** Permits of these buckets have returned. */
  returned(buckets: readonly { readonly limit: string; readonly key: string }[]): void
  /** A limit has changed. */
  changed(limit: string): void
  /** Refuses all that wait, and every later call. */
  end(error: SluiceError): void
}

/** The parts of waits at a backend. */
export interface BackendWaitsOptions {
  readonly clock: Clock
  readonly limits: LimiterLimits
  readonly maxWaiting: number
  readonly leaseUs: number
  /** Names the permits of this limiter, unlike those of any other. */
  readonly prefix: string
  readonly wait: (request: UnitRequest, terms: WaitTerms) => Promise<UnitAnswer>
  /** The backend cannot be reached. */
  readonly isDown: () => boolean
}

/** Calls that wait in the wait lists of their backend. */
export class BackendWaits implements Waits {
  readonly #options: BackendWaitsOptions
  readonly #ending = new AbortController()
  #waiting = 0
  #permits = 0

  constructor(options: BackendWaitsOptions) {
    this.#options = options
  }

  get waiting(): number {
    return this.#waiting
  }

  acquireNow(): null {
    return null
  }

  async acquire(uses: readonly BucketUse[], priority: number, waitUs: number, signal?: AbortSignal): Promise<Granted> {
    const { clock, maxWaiting, leaseUs, prefix, wait } = this.#options
    this.#ending.signal.throwIfAborted()
    if (this.#waiting >= maxWaiting) throw full(this.#waiting)
    const ends = signal ? AbortSignal.any([signal, this.#ending.signal]) : this.#ending.signal
    const untilUs = clock.monotonicUs() + waitUs
    const request = { uses, priority, line: 0, permit: prefix + ++this.#permits, leaseUs }
    this.#waiting++
    try {
      for (;;) {
        const leftUs = waitUs === 0 ? 0 : Math.max(0, untilUs - clock.monotonicUs())
        const answer = await wait(request, { waitUs: leftUs, signal: ends })
        if (answer.kind === 'granted') return answer
        if (answer.kind === 'unknown') throw unknown(answer.limit)
        const pauseUs = answer.retryAfterUs ?? Infinity
        if (!this.#options.isDown() || pauseUs > leftUs) throw this.#rejected(answer)
        await paused(clock, pauseUs, ends)
      }
    } finally {
      this.#waiting--
    }
  }

  /** The backend knows. */
  returned(): void {}

  /** The backend knows. */
  changed(): void {}

  end(error: SluiceError): void {
    this.#ending.abort(error)
  }

  #rejected({ by, retryAfterUs }: Denied): RateLimitRejected {
    const { clock, limits } = this.#options
    const expected = retryAfterUs === null ? null : new Date(clock.now() + retryAfterUs / 1000)
    return new RateLimitRejected(by.limit, by.key, expected, limits.policy(by.limit))
  }
}

function paused(clock: Clock, us: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const abort = (): void => {
      timer.cancel()
      reject(signal.reason as Error)
    }
    const timer: Timer = clock.setTimer(() => {
      signal.removeEventListener('abort', abort)
      resolve()
    }, us / 1000)
    signal.addEventListener('abort', abort)
  })
}
