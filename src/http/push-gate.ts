/** So many pushes are on their way to the store at once while workers ask for something. */
const BESIDE_WORKERS = 32

/**
 * Keeps pushes from starving fetches and acknowledgements: those are many small round trips, each behind all pushes that came before.
 * While a worker's request is on its way, pushes beyond a bound wait for their turn, in order. Without workers nothing waits.
 */
export class PushGate {
  readonly #waiting: (() => void)[] = []
  #pushes = 0
  #workers = 0

  /** Does a worker's request. */
  async work<T>(run: () => Promise<T>): Promise<T> {
    this.#workers++
    try {
      return await run()
    } finally {
      this.#workers--
      this.#next()
    }
  }

  /** Does a push, when it is its turn. */
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

  /** Who waits is counted from the moment it is let through, so that none slips in between. */
  #next(): void {
    while (this.#waiting.length > 0 && !this.#isFull) {
      this.#pushes++
      this.#waiting.shift()?.()
    }
  }
}
