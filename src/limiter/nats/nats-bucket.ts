import type { Timeline } from '../../policy/limits/timeline.ts'
import type { BucketName } from '../contract/limiter.ts'
import { ValueBucket } from '../ledger/value-bucket.ts'

/** A bucket as it was read. */
export class NatsBucket extends ValueBucket {
  /** The revision of the entry; 0: there is none. */
  readonly entry: number
  readonly #nowUs: number

  /** @param text the value of the entry; '': none */
  constructor(name: BucketName, text: string, entry: number, timeline: Timeline, nowUs: number) {
    super(name, text, timeline, nowUs)
    this.entry = entry
    this.#nowUs = nowUs
  }

  /** How long what was decided at its reading may count. */
  get countsForUs(): number {
    return this.endsUs - this.#nowUs
  }
}
