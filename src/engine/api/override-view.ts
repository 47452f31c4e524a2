import type { PolicyChange } from '../../policy/limits/override.ts'
import type { Override } from '../../store/contract/limits.ts'

/** An override or a pause of a limit, active or ended. */
export interface OverrideView {
  readonly limit: string
  /** Null: all keys; empty: the bucket of jobs without a key. */
  readonly key: string | null
  readonly kind: 'override' | 'pause'
  /** The changed numbers; null: a pause. */
  readonly change: PolicyChange | null
  readonly since: Date
  /** The instant at which it ends by itself. */
  readonly until: Date | null
  readonly by: string | null
  readonly reason: string | null
  /** The instant at which it ended; null: it is active. */
  readonly ended: Date | null
  /** The author of its end or of its replacement; null: it expired, or its author is unknown. */
  readonly endedBy: string | null
}

/** The public view of an override. */
export function viewOfOverride({
  limit,
  key,
  kind,
  change,
  sinceUs,
  untilUs,
  by,
  reason,
  ended,
}: Override): OverrideView {
  const date = (us: number | null): Date | null => (us === null ? null : new Date(us / 1000))
  return {
    limit,
    key,
    kind,
    change: kind === 'pause' ? null : change,
    since: new Date(sinceUs / 1000),
    until: date(untilUs),
    by,
    reason,
    ended: date(ended?.atUs ?? null),
    endedBy: ended?.by ?? null,
  }
}
