import type { Clock, Timer } from '../base/clock.ts'
import type { EngineInternals } from '../engine/internals.ts'
import { FALLBACK_POLL_MS } from '../engine/run/worker.ts'
import type { Remote } from '../remote/remote.ts'

/** A store without an answer after this time counts as failed: monitors wait no longer. */
const ANSWERS_WITHIN_MS = 2000
/** The last claim of a running engine is at most this old. */
const CLAIMED_WITHIN_US = 2 * FALLBACK_POLL_MS * 1000

const NO_ANSWER = 'does not answer'

/** Returns within a bounded time whether the store answers. Concurrent callers share one request to the store. */
export class Health {
  readonly #remote: Remote
  readonly #clock: Clock
  readonly #engine: EngineInternals
  readonly #sinceUs: number
  #asking: Promise<string> | null = null

  constructor(remote: Remote, clock: Clock, engine: EngineInternals) {
    this.#remote = remote
    this.#clock = clock
    this.#engine = engine
    this.#sinceUs = clock.monotonicUs()
  }

  /** True if the store answers now; false after an error, and after 2 s without an answer. */
  async isWell(): Promise<boolean> {
    return (await this.#schema()) !== NO_ANSWER
  }

  /** Each part that has to be as it should: `ok`, or words. */
  async checks(): Promise<{ readonly store: string; readonly schema: string; readonly claims: string }> {
    const schema = await this.#schema()
    const store = schema === NO_ANSWER ? NO_ANSWER : 'ok'
    return { store, schema: schema === NO_ANSWER ? 'unknown' : schema, claims: this.#claims() }
  }

  #claims(): string {
    if (!this.#engine.state().isRunning) return 'ok'
    const ageUs = this.#clock.monotonicUs() - (this.#engine.figures.claimedUs ?? this.#sinceUs)
    return ageUs <= CLAIMED_WITHIN_US ? 'ok' : `the last one is ${Math.round(ageUs / 1e6)} s old`
  }

  #schema(): Promise<string> {
    this.#asking ??= this.#ask().finally(() => (this.#asking = null))
    const answer = this.#asking
    let timer: Timer | null = null
    const late = new Promise<string>((resolve) => {
      timer = this.#clock.setTimer(() => resolve(NO_ANSWER), ANSWERS_WITHIN_MS)
    })
    return Promise.race([answer, late]).finally(() => timer?.cancel())
  }

  /** A newer schema is one of a rolling upgrade, which older servers serve on. */
  async #ask(): Promise<string> {
    try {
      const { stored, known } = await (await this.#remote.store()).schema()
      return stored >= known ? 'ok' : `has version ${stored}; this server needs ${known}`
    } catch {
      return NO_ANSWER
    }
  }
}
