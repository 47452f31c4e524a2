import type { Timeline } from '../../policy/limits/timeline.ts'
import type { BucketName } from '../contract/limiter.ts'
import { StoredBucket } from './stored-bucket.ts'

/** A bucket as one text: its state, and the end of the lease of each permit. */
interface Value {
  readonly state: string
  readonly permits: Readonly<Record<string, number>>
}

const NEW: Value = { state: '', permits: {} }

/** A bucket that is kept as one text. */
export class ValueBucket extends StoredBucket {
  readonly permits: Map<string, number>
  readonly #nowUs: number

  /** @param text its value; '': none */
  constructor(name: BucketName, text: string, timeline: Timeline, nowUs: number) {
    const value = text === '' ? NEW : (JSON.parse(text) as Value)
    super(name, value.state, timeline, nowUs)
    this.permits = new Map(Object.entries(value.permits).filter(([, untilUs]) => untilUs > nowUs))
    this.#nowUs = nowUs
  }

  get active(): number {
    return this.permits.size
  }

  takePermit(id: string, untilUs: number): void {
    this.permits.set(id, untilUs)
    this.changed = true
  }

  /** When the value may be removed. */
  get endsUs(): number {
    return Math.max(this.warmUntilUs, ...this.permits.values())
  }

  /** The value to store. */
  get value(): string {
    return JSON.stringify({ state: this.text(this.#nowUs), permits: Object.fromEntries(this.permits) })
  }
}

/** The instant of the last change of a bucket; 0: none. */
export function lastChangeUs(text: string): number {
  if (text === '') return 0
  const { state } = JSON.parse(text) as Value
  return Number(/^\d+ \[(\d+)/.exec(state)?.[1] ?? 0)
}
