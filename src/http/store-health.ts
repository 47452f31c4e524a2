import type { Clock, Timer } from '../base/clock.ts'
import type { Remote } from '../remote/remote.ts'

/** A store without an answer after this time counts as failed: monitors wait no longer. */
const ANSWERS_WITHIN_MS = 2000

/** Returns within a bounded time whether the store answers. Concurrent callers share one request to the store. */
export class StoreHealth {
  readonly #remote: Remote
  readonly #clock: Clock
  #asking: Promise<boolean> | null = null

  constructor(remote: Remote, clock: Clock) {
    this.#remote = remote
    this.#clock = clock
  }

  /** True if the store answers now; false after an error, and after 2 s without an answer. */
  isWell(): Promise<boolean> {
    this.#asking ??= this.#ask().finally(() => (this.#asking = null))
    const answer = this.#asking
    let timer: Timer | null = null
    const late = new Promise<boolean>((resolve) => {
      timer = this.#clock.setTimer(() => resolve(false), ANSWERS_WITHIN_MS)
    })
    return Promise.race([answer, late]).finally(() => timer?.cancel())
  }

  async #ask(): Promise<boolean> {
    try {
      await (await this.#remote.store()).settings('health')
      return true
    } catch {
      return false
    }
  }
}
