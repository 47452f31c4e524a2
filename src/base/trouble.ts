import type { Clock } from './clock.ts'
import { isFinal, SluiceError } from './errors.ts'
import type { Logger } from './logger.ts'

interface Going {
  readonly sinceUs: number
  failures: number
  toldUs: number
}

const TOLD_EVERY_US = 60_000_000

/**
 * Says what goes wrong with the store: what fails again and again once at its beginning, once a minute while it lasts, and at its end.
 * A store that has failed for good is told of once, whatever fails through it from then on.
 */
export class Trouble {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #going = new Map<string, Going>()
  #final = false

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  /** Work that is repeated has failed. @param what the work, as in `a claim` */
  failed(what: string, error: unknown): void {
    // The engine has let go of the store, and said so.
    if (error instanceof SluiceError && error.code === 'engine.stopped') return
    if (this.#tellFinal(error)) return
    const nowUs = this.#clock.monotonicUs()
    const going = this.#going.get(what) ?? { sinceUs: nowUs, toldUs: -Infinity, failures: 0 }
    this.#going.set(what, going)
    going.failures++
    if (nowUs - going.toldUs < TOLD_EVERY_US) return
    going.toldUs = nowUs
    const { failures, sinceUs } = going
    const since = failures === 1 ? {} : { failures, seconds: (nowUs - sinceUs) / 1e6 }
    this.#logger.error({ err: error, ...since }, `${what} failed; it will be tried again`)
  }

  /** Work that is repeated has succeeded. */
  over(what: string): void {
    if (this.#going.size === 0) return
    const going = this.#going.get(what)
    if (!going || !this.#going.delete(what)) return
    const seconds = (this.#clock.monotonicUs() - going.sinceUs) / 1e6
    this.#logger.info({ failures: going.failures, seconds }, `${what} has succeeded again`)
  }

  /** Something has failed that nothing will do again. */
  tell(level: 'warn' | 'error', error: unknown, fields: object, message: string): void {
    if (!this.#tellFinal(error)) this.#logger[level]({ err: error, ...fields }, message)
  }

  /** True: nothing of this process reaches the store any more, and that is told. */
  #tellFinal(error: unknown): boolean {
    if (!isFinal(error)) return false
    if (!this.#final)
      this.#logger.error(
        { err: error },
        'the store has failed: this process claims and settles nothing more; mend the disk and restart the process',
      )
    this.#final = true
    return true
  }
}
