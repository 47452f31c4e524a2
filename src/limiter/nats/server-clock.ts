import { systemClock } from '../../base/clock.ts'
import { ClockOffset } from '../ledger/clock-offset.ts'
import type { Entries } from './kv.ts'

/** A sample of the server's clock is taken after this time, and sooner while the clock is known badly. */
const SAMPLED_EVERY_US = 2_000_000
const SAMPLED_SOON_US = 100_000
/** So well the clock should be known, and so many samples are taken for that before the first decision. */
const WELL_KNOWN_US = 4000
const FIRST_SAMPLES = 5
/** The server tells whole milliseconds. */
const ROUNDED_US = 1000

/** The server's clock, from the times of entries that this process wrote. */
export class ServerClock {
  readonly #entries: Entries
  readonly #key: string
  readonly #offset = new ClockOffset()
  #sampledUs = -Infinity
  #sampling: Promise<void> | null = null

  constructor(entries: Entries, key: string) {
    this.#entries = entries
    this.#key = key
  }

  /** The instant for a decision. It is never ahead of the server's: the uncertainty counts against us. */
  async nowUs(): Promise<number> {
    const everyUs = this.#offset.uncertainUs > WELL_KNOWN_US ? SAMPLED_SOON_US : SAMPLED_EVERY_US
    if (systemClock.monotonicUs() - this.#sampledUs > everyUs) {
      this.#sampling ??= this.#sample().finally(() => (this.#sampling = null))
      if (!this.#offset.isKnown) await this.#sampling
      // A failure shows in the step itself.
      else this.#sampling.catch(() => undefined)
    }
    return systemClock.monotonicUs() + Math.round(this.#offset.leastUs)
  }

  /** The time from now until an instant of the server, by the best guess. */
  untilUs(atUs: number): number {
    return atUs - systemClock.monotonicUs() - this.#offset.guessUs
  }

  async #sample(): Promise<void> {
    const most = this.#offset.isKnown ? 1 : FIRST_SAMPLES
    for (let n = 0; n < most && (n === 0 || this.#offset.uncertainUs > WELL_KNOWN_US); n++) await this.#sampleOnce()
  }

  async #sampleOnce(): Promise<void> {
    const sentUs = systemClock.monotonicUs()
    const revision = await this.#entries.put(this.#key, '')
    const answeredUs = systemClock.monotonicUs()
    const entry = await this.#entries.entry(this.#key)
    if (entry?.revision !== revision) return
    this.#sampledUs = answeredUs
    const createdUs = entry.created.getTime() * 1000
    this.#offset.note(sentUs, answeredUs, createdUs, createdUs + ROUNDED_US)
  }
}
