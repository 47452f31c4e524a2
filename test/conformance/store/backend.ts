import type { Clock } from '../../../src/base/clock.ts'
import type { Store } from '../../../src/store/contract/store.ts'

/** The options with which a store may be opened. */
export interface StoreSettings {
  readonly ageingUs?: number | null
}

/** The parts that a backend brings to the suites. */
export interface StoreBackend {
  /** Names the backend in the titles of the tests. */
  readonly name: string
  /** How much it plays of long histories, which every backend must keep alike: all by default. */
  readonly part?: number
  /** A store over a storage of its own, with nothing in it, opened, with `RETENTION`. */
  open(clock: Clock, options?: StoreSettings): Promise<Store>
  /** Another store over the storage that was opened last, as another process would have it; absent where none can. */
  reopen?(clock: Clock, options?: StoreSettings): Promise<Store>
}

/** How long finished jobs are kept in the suites, in µs. */
export const RETENTION: {
  readonly completedUs: number
  readonly cancelledUs: number
  readonly discardedUs: number
} = { completedUs: 60_000_000, cancelledUs: 120_000_000, discardedUs: 600_000_000 }
