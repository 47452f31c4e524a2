import { SHARED_KEY } from '../../policy/limits/partition-key.ts'
import type { BucketReport } from '../../store/contract/limits.ts'
import { type OverrideView, viewOfOverride } from './override-view.ts'

/** The present state of one bucket. */
export interface BucketView {
  readonly limit: string
  /** The partition key; null: the one bucket of a limit without keys. */
  readonly key: string | null
  /**
   * The number of the worker that owns this bucket of a limit of scope `worker`; null: no worker has used it; absent:
   * the limit is fleet-wide.
   */
  readonly worker?: number | null
  /** Units that could start now. */
  readonly available: number
  /** Units owed beyond the budget. */
  readonly debt: number
  /** Burst, max, or permits. */
  readonly capacity: number
  /** Permits held by active jobs. */
  readonly active: number
  /** Jobs in its wait list. */
  readonly waiting: number
  readonly nextStart: Date | null
  /** The time by which all jobs that wait now could have started, if nothing else delays them; null: permits decide. */
  readonly drained: Date | null
  /** The units of `available` kept for jobs at or above a priority; null: none. */
  readonly headroom: { readonly units: number; readonly priority: number } | null
  /** By how much a guard lengthens its window, period or interval, in µs; absent: it has none. */
  readonly guardUs?: number
  /** The guard is the default of a sliding window; absent: the policy names it. */
  readonly defaultGuard?: true
  /**
   * The common limit of which this bucket has a guaranteed share, and when its next start is within that (null: when one
   * of its permits returns). Absent: it has none.
   */
  readonly guarantee?: { readonly limit: string; readonly from: Date | null }
  /** The name of the backend that keeps it; absent: the store does. */
  readonly backend?: string
  /**
   * Of a limit in shadow mode: the starts that it would have delayed or ended, their delays, and how long a start would
   * wait now (null: until a permit returns). Absent: it is enforced.
   */
  readonly shadow?: {
    readonly delayed: number
    readonly dropped: number
    readonly meanDelayMs: number
    readonly worstDelayMs: number
    readonly waitMs: number | null
  }
  /** Its active overrides and pauses, of the whole limit or of this key. */
  readonly overrides: readonly OverrideView[]
}

/** A bucket as its views show it. */
export function bucketViewOf({
  key,
  nextStartUs,
  drainedUs,
  headroom,
  guard,
  guarantee,
  shadow,
  overrides,
  ...report
}: BucketReport): BucketView {
  const date = (us: number | null): Date | null => (us === null ? null : new Date(us / 1000))
  return {
    ...report,
    key: key === SHARED_KEY ? null : key,
    nextStart: date(nextStartUs),
    drained: date(drainedUs),
    headroom: headroom ?? null,
    ...(guard && { guardUs: guard.us, ...(guard.isDefault && { defaultGuard: true as const }) }),
    ...(guarantee && { guarantee: { limit: guarantee.limit, from: date(guarantee.fromUs) } }),
    ...(shadow && {
      shadow: {
        delayed: shadow.delayed,
        dropped: shadow.dropped,
        meanDelayMs: shadow.delayed === 0 ? 0 : shadow.totalUs / shadow.delayed / 1000,
        worstDelayMs: shadow.worstUs / 1000,
        waitMs: shadow.waitUs === null ? null : shadow.waitUs / 1000,
      },
    }),
    overrides: overrides.map(viewOfOverride),
  }
}
