import type { Clock } from './clock.ts'
import { isFinal, SluiceError } from './errors.ts'
import type { Logger } from './logger.ts'

interface Failure {
  readonly sinceUs: number
  failures: number
  loggedUs: number
}

const LOGGED_EVERY_US = 60_000_000

/**
 * Logs failures of the store. Repeated work logs its first failure, then once a minute, and its recovery. A store that
 * has failed for good is logged once.
 */
export class Trouble {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #failing = new Map<string, Failure>()
  readonly #errors = new Map<string, number>()
  #final = false

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  /** The number of failures of the store since the start, by code. */
  get errors(): ReadonlyMap<string, number> {
    return this.#errors
  }

  /** Counts a failure, if it is one of the store. */
  count(error: unknown): void {
    if (!(error instanceof SluiceError) || !error.code.startsWith('store.')) return
    this.#errors.set(error.code, (this.#errors.get(error.code) ?? 0) + 1)
  }

  /** Notes a failure of repeated work. @param what the work, as in `a claim` */
  failed(what: string, error: unknown): void {
    // The engine itself closed the store, and logged it.
    if (error instanceof SluiceError && error.code === 'engine.stopped') return
    this.count(error)
    if (this.#logFinal(error)) return
    const nowUs = this.#clock.monotonicUs()
    const failure = this.#failing.get(what) ?? { sinceUs: nowUs, loggedUs: -Infinity, failures: 0 }
    this.#failing.set(what, failure)
    failure.failures++
    if (nowUs - failure.loggedUs < LOGGED_EVERY_US) return
    failure.loggedUs = nowUs
    const { failures, sinceUs } = failure
    const since = failures === 1 ? {} : { failures, seconds: (nowUs - sinceUs) / 1e6 }
    this.#logger.error({ err: error, ...since }, `${what} failed; it will be tried again`)
  }

  /** Notes a success of repeated work. */
  over(what: string): void {
    if (this.#failing.size === 0) return
    const failure = this.#failing.get(what)
    if (!failure || !this.#failing.delete(what)) return
    const seconds = (this.#clock.monotonicUs() - failure.sinceUs) / 1e6
    this.#logger.info({ failures: failure.failures, seconds }, `${what} has succeeded again`)
  }

  /** Logs a failure of work that is not repeated. */
  report(level: 'warn' | 'error', error: unknown, fields: object, message: string): void {
    this.count(error)
    if (!this.#logFinal(error)) this.#logger[level]({ err: error, ...fields }, message)
  }

  /** Logs a final failure of the store once. @returns whether the error is final */
  #logFinal(error: unknown): boolean {
    if (!isFinal(error)) return false
    if (!this.#final)
      this.#logger.error(
        { err: error },
        'the store has failed: this process can no longer claim or settle. Check the disk, then restart the process',
      )
    this.#final = true
    return true
  }
}
