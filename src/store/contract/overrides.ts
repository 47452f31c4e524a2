import type { PolicyChange } from '../../policy/limits/override.ts'
import type { OverrideRecord } from '../../policy/limits/timeline.ts'

/** A change of a limit while it runs, for all keys or for one. */
export interface OverrideRequest {
  readonly limit: string
  /** Null: all keys. */
  readonly key: string | null
  /** One of each kind stands for a key, and one of each for the limit: a new one takes the place of the old. */
  readonly kind: 'override' | 'pause'
  /** Null: what stands ends. Of a pause only whether it is null counts. */
  readonly change: PolicyChange | null
  /** The store's clock; null: until it is ended. */
  readonly untilUs: number | null
  readonly by: string | null
  readonly reason: string | null
}

/** An override or a pause on record. */
export interface Override extends OverrideRecord {
  readonly limit: string
}
