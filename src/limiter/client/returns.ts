import type { Clock, Timer } from '../../base/clock.ts'
import { mayPass } from '../../base/errors.ts'
import { pauseAfter } from '../../base/persist.ts'
import type { BucketName, HeldPermit } from '../contract/limiter.ts'

const FIRST_PAUSE_MS = 50
/** So many of the last returns may be lost with a server that fails over. */
const MOST_RECENT = 1000
/** The most permits that one call returns. */
const AT_ONCE = 100

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
  /** Each with the instant on the steady clock at which its lease has ended. */
  #left: (readonly [permit: HeldPermit, untilUs: number])[] = []
  /** Those that returned last. */
  readonly #recent: HeldPermit[] = []
  #failures = 0
  #timer: Timer | null = null
  #ended = false

  constructor(options: ReturnsOptions) {
    this.#options = options
  }

  /** The permits that have not returned yet. */
  get left(): readonly HeldPermit[] {
    return this.#left.map(([permit]) => permit)
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
    const { clock, leaseUs } = this.#options
    const untilUs = clock.monotonicUs() + leaseUs
    for (const permit of permits) this.#left.push([permit, untilUs])
    if (permits.length > 0) this.#again()
  }

  /** The backend answers again: it may be a replica that has not heard of the last returns. */
  recover(): Promise<void> {
    this.keep(this.#recent.splice(0))
    return this.flush()
  }

  /** Returns what is left, as the backend may answer again. */
  async flush(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    const nowUs = this.#options.clock.monotonicUs()
    const left = this.#left.filter(([, untilUs]) => untilUs > nowUs)
    this.#left = []
    while (left.length > 0 && !this.#ended) {
      const some = left.slice(0, AT_ONCE)
      const permits = some.map(([permit]) => permit)
      try {
        await this.#options.releaseOnce(permits)
      } catch {
        this.#failures++
        this.#left.push(...left)
        break
      }
      this.#failures = 0
      left.splice(0, some.length)
      this.#options.returned(permits.flatMap(({ of }) => of))
    }
    this.#again()
  }

  /** Ends the tries. */
  end(): void {
    this.#ended = true
    this.#timer?.cancel()
  }

  #again(): void {
    if (this.#ended || this.#left.length === 0) return
    this.#timer ??= this.#options.clock.setTimer(
      () => void this.flush(),
      pauseAfter(Math.max(1, this.#failures), FIRST_PAUSE_MS),
    )
    this.#timer.unref?.()
  }
}
