import type { PolicyChange } from '../../policy/limits/override.ts'
import type { OverrideRecord } from '../../policy/limits/timeline.ts'

/** A change of a limit while it runs, for all keys or for one. */
export interface OverrideRequest {
  readonly limit: string
  /** Null: all keys. */
  readonly key: string | null
  /** The limit and each key of it have at most one of each kind: a new one replaces the old. */
  readonly kind: 'override' | 'pause'
  /** Null ends the current one. A pause only uses whether this is null. */
  readonly change: PolicyChange | null
  /** On the store's clock; null: until a caller ends it. */
  readonly untilUs: number | null
  readonly by: string | null
  readonly reason: string | null
}

/** An override or a pause on record. */
export interface Override extends OverrideRecord {
  readonly limit: string
}
