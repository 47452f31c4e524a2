import type { Clock, Timer } from '../../base/clock.ts'
import { pauseAfter } from '../../base/persist.ts'

const FIRST_PAUSE_MS = 50
/** The most of them in one try. */
const AT_ONCE = 100

/** The parts of what is sent again. */
export interface UnsentOptions<T> {
  readonly clock: Clock
  /** Tries to send them; it returns those that it could not send. It rejects: none of them. */
  readonly send: (some: readonly T[]) => Promise<readonly T[]>
  /** These were sent now. */
  readonly sent: (some: readonly T[]) => void
}

/** Messages to a backend that could not be reached: this process sends each again until it has lost its use. */
export class Unsent<T> {
  readonly #options: UnsentOptions<T>
  /** Each with the instant on the steady clock from which it is of no use. */
  #left: (readonly [item: T, untilUs: number])[] = []
  #failures = 0
  #timer: Timer | null = null
  #ended = false

  constructor(options: UnsentOptions<T>) {
    this.#options = options
  }

  /** Those that this process has not sent yet. */
  get left(): readonly T[] {
    return this.#left.map(([item]) => item)
  }

  /** Sends them soon, and again for this time. */
  keep(items: readonly T[], usefulUs: number): void {
    const untilUs = this.#options.clock.monotonicUs() + usefulUs
    for (const item of items) this.#left.push([item, untilUs])
    if (items.length > 0) this.#again()
  }

  /** Sends what is left, as the backend may answer again. */
  async flush(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    const nowUs = this.#options.clock.monotonicUs()
    const left = this.#left.filter(([, untilUs]) => untilUs > nowUs)
    this.#left = []
    while (left.length > 0 && !this.#ended) {
      const some = left.splice(0, AT_ONCE)
      const items = some.map(([item]) => item)
      const failed = new Set(await this.#options.send(items).catch(() => items))
      const sent = items.filter((item) => !failed.has(item))
      if (sent.length > 0) this.#options.sent(sent)
      if (failed.size === 0) {
        this.#failures = 0
        continue
      }
      this.#failures++
      this.#left.push(...some.filter(([item]) => failed.has(item)), ...left)
      break
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
