/** The most pushes in progress while workers have requests. */
const BESIDE_WORKERS = 32

/**
 * Keeps pushes from starving fetches and acknowledgements. Those are many small round trips, and each would wait for
 * all earlier pushes. While a worker's request is in progress, pushes beyond a bound wait in order. Without workers
 * pushes never wait.
 */
export class PushGate {
  readonly #waiting: (() => void)[] = []
  #pushes = 0
  #workers = 0

  /** Runs a worker's request. */
  async work<T>(run: () => Promise<T>): Promise<T> {
    this.#workers++
    try {
      return await run()
    } finally {
      this.#workers--
      this.#next()
    }
  }

  /** Runs a push once the gate admits it. */
  async push<T>(run: () => Promise<T>): Promise<T> {
    if (this.#isFull) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#pushes++
    try {
      return await run()
    } finally {
      this.#pushes--
      this.#next()
    }
  }

  get #isFull(): boolean {
    return this.#workers > 0 && this.#pushes >= BESIDE_WORKERS
  }

  /** A push counts from its admission on, so that none slips in between. */
  #next(): void {
    while (this.#waiting.length > 0 && !this.#isFull) {
      this.#pushes++
      this.#waiting.shift()?.()
    }
  }
}
