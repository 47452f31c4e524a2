import type { Clock, Timer } from '../base/clock.ts'
import type { Remote } from '../remote/remote.ts'

/** A store that has not answered within this time is not well: whoever watches a server waits no longer. */
const ANSWERS_WITHIN_MS = 2000

/** Whether the store answers, told in bounded time; however many ask at once, the store is asked once. */
export class StoreHealth {
  readonly #remote: Remote
  readonly #clock: Clock
  #asking: Promise<boolean> | null = null

  constructor(remote: Remote, clock: Clock) {
    this.#remote = remote
    this.#clock = clock
  }

  /** True when the store answers now; false after an error, and after 2 s without an answer. */
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
