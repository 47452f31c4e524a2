import type { Timeline } from '../../policy/limits/timeline.ts'
import type { BucketName } from '../contract/limiter.ts'
import { StoredBucket } from './stored-bucket.ts'

/** A bucket as one text: its state, the end of the lease of each permit, and until when refused callers count. */
interface Value {
  readonly state: string
  readonly permits: Readonly<Record<string, number>>
  readonly callers?: Readonly<Record<string, number>>
}

/** A refused caller counts until it may ask again, and for this time at least; it is noted for twice as long. */
const COUNTED_US = 1_000_000
const LONGEST_COUNTED_US = 60_000_000
const MOST_CALLERS = 256

const NEW: Value = { state: '', permits: {} }

/** A bucket that is kept as one text. */
export class ValueBucket extends StoredBucket {
  readonly permits: Map<string, number>
  readonly #callers: Map<string, number>
  readonly #nowUs: number

  /** @param text its value; '': none */
  constructor(name: BucketName, text: string, timeline: Timeline, nowUs: number) {
    const value = text === '' ? NEW : (JSON.parse(text) as Value)
    super(name, value.state, timeline, nowUs)
    const isIn = ([, untilUs]: readonly [string, number]): boolean => untilUs > nowUs
    this.permits = new Map(Object.entries(value.permits).filter(isIn))
    this.#callers = new Map(Object.entries(value.callers ?? {}).filter(isIn))
    this.#nowUs = nowUs
  }

  get active(): number {
    return this.permits.size
  }

  takePermit(id: string, untilUs: number): void {
    this.permits.set(id, untilUs)
    this.changed = true
  }

  refused(caller: string, retryAfterUs: number | null): number {
    const untilUs = this.#nowUs + Math.min(retryAfterUs ?? 0, LONGEST_COUNTED_US) + COUNTED_US
    const known = this.#callers.get(caller)
    if ((known ?? 0) < untilUs && (known !== undefined || this.#callers.size < MOST_CALLERS)) {
      // Most refusals then have nothing to write.
      this.#callers.set(caller, untilUs + COUNTED_US)
      this.changed = true
    }
    return this.#callers.size
  }

  /** When the value may be removed. */
  get endsUs(): number {
    return Math.max(this.warmUntilUs, ...this.permits.values())
  }

  /** The value to store. */
  get value(): string {
    const value = { state: this.text(this.#nowUs), permits: Object.fromEntries(this.permits) }
    return JSON.stringify(this.#callers.size === 0 ? value : { ...value, callers: Object.fromEntries(this.#callers) })
  }
}

/** The instant of the last change of a bucket; 0: none. */
export function lastChangeUs(text: string): number {
  if (text === '') return 0
  const { state } = JSON.parse(text) as Value
  return Number(/^\d+ \[(\d+)/.exec(state)?.[1] ?? 0)
}
