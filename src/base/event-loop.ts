import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Clock } from './clock.ts'

type LoopHistogram = ReturnType<typeof monitorEventLoopDelay>

const RESOLUTION_MS = 50
/** A reader sees the delays of at least this time. */
const WINDOW_US = 10_000_000

/** Delays of the event loop, in s. */
export interface LoopDelays {
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/**
 * Measures how late the event loop of this process runs its timers, from the first question on. Several readers see the
 * same delays: those of the last window, which is 10 s or the time between two questions.
 */
export class EventLoop {
  readonly #clock: Clock
  #histogram: LoopHistogram | null = null
  #last: LoopDelays = { p50: 0, p99: 0, max: 0 }
  #sinceUs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  delays(): LoopDelays {
    const nowUs = this.#clock.monotonicUs()
    if (this.#histogram === null) {
      this.#histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
      this.#histogram.enable()
      this.#sinceUs = nowUs
    }
    if (nowUs - this.#sinceUs < WINDOW_US) return this.#last
    this.#sinceUs = nowUs
    this.#last = delaysIn(this.#histogram)
    this.#histogram.reset()
    return this.#last
  }

  close(): void {
    this.#histogram?.disable()
  }
}

/** Node measures the time between two ticks. A delay is what exceeds the interval. */
function delaysIn(histogram: LoopHistogram): LoopDelays {
  if (histogram.count === 0) return { p50: 0, p99: 0, max: 0 }
  const seconds = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - RESOLUTION_MS / 1000)
  return {
    p50: seconds(histogram.percentile(50)),
    p99: seconds(histogram.percentile(99)),
    max: seconds(histogram.max),
  }
}
