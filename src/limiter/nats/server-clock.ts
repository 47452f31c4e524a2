import { systemClock } from '../../base/clock.ts'
import type { Entries } from './kv.ts'

/** A sample of the server's clock is taken after this time. */
const SAMPLED_EVERY_US = 2_000_000
const SAMPLES = 8

/**
 * The server's clock, from the times of entries that this process wrote. The server wrote an entry before it answered, so
 * its clock is at least that far since then. The uncertainty counts against us: this clock is never ahead of it.
 */
export class ServerClock {
  readonly #entries: Entries
  readonly #key: string
  /** Lower bounds of the server's clock minus the steady one. */
  #aheadUs: number[] = []
  #sampledUs = -Infinity
  #sampling: Promise<void> | null = null

  constructor(entries: Entries, key: string) {
    this.#entries = entries
    this.#key = key
  }

  async nowUs(): Promise<number> {
    const steadyUs = systemClock.monotonicUs()
    if (steadyUs - this.#sampledUs > SAMPLED_EVERY_US) {
      this.#sampling ??= this.#sample().finally(() => (this.#sampling = null))
      if (this.#aheadUs.length === 0) await this.#sampling
      // A failure shows in the step itself.
      else this.#sampling.catch(() => undefined)
    }
    return systemClock.monotonicUs() + Math.max(...this.#aheadUs)
  }

  async #sample(): Promise<void> {
    const revision = await this.#entries.put(this.#key, '')
    const answeredUs = systemClock.monotonicUs()
    const entry = await this.#entries.entry(this.#key)
    if (entry?.revision !== revision) return
    this.#sampledUs = answeredUs
    this.#aheadUs = [...this.#aheadUs, entry.created.getTime() * 1000 - answeredUs].slice(-SAMPLES)
  }
}
