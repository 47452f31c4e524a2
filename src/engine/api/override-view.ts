import type { Clock } from '../../base/clock.ts'
import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkInstant } from '../../base/instant.ts'
import { show } from '../../base/options.ts'
import { storableText } from '../../base/text.ts'
import type { Limit } from '../../policy/limits/define.ts'
import type { Key } from '../../policy/limits/key-path.ts'
import type { PolicyChange } from '../../policy/limits/override.ts'
import { partitionKey } from '../../policy/limits/partition-key.ts'
import type { Override } from '../../store/contract/limits.ts'

/** The author of a change, and the reason: both are recorded. */
export interface Remark {
  /** At most 255 characters. */
  by?: string
  /** At most 1,000 characters. */
  reason?: string
}

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

/** The name of a limit, from the limit itself or its name. @throws {SluiceError} `option.invalid` */
export function nameOf(limit: Limit | string): string {
  const name: unknown = typeof limit === 'object' && limit !== null ? limit.name : limit
  if (typeof name === 'string') return name
  throw new SluiceError('option.invalid', `A limit is invalid: ${show(limit)}. Expected its name, or the limit itself.`)
}

/** A key as buckets store it: `''` for jobs without a key; null: no key. @throws {SluiceError} `limit.key.invalid` */
export function keyOf(key: Key | undefined, limit: string): string | null {
  if (key === undefined) return null
  const found = partitionKey(key, 'shared', `limit ${limit}`)
  return found.kind === 'key' ? found.key : null
}

/**
 * An instant of the store's clock, from a wall-clock instant or a time from now.
 * @throws {SluiceError} `option.invalid`, `duration.invalid`
 */
export function untilUsOf(until: Duration | Date, clock: Clock, nowUs: number): number {
  const nowMs = clock.now()
  const aheadUs = until instanceof Date ? Math.round((until.getTime() - nowMs) * 1000) : durationUs(until, 'until')
  if (aheadUs > 0) {
    checkInstant(nowMs + aheadUs / 1000, 'until')
    return nowUs + aheadUs
  }
  throw new SluiceError(
    'option.invalid',
    `until is invalid: ${until instanceof Date && Number.isFinite(until.getTime()) ? until.toISOString() : show(until)}. Expected a future time.`,
  )
}

/** Checks the author and the reason of a change. @throws {SluiceError} `option.invalid` */
export function checkRemark({ by, reason }: Remark): { by: string | null; reason: string | null } {
  return { by: checkText(by, 'by', 255), reason: checkText(reason, 'reason', 1000) }
}

function checkText(text: unknown, name: string, most: number): string | null {
  if (text === undefined) return null
  if (typeof text === 'string' && text.length <= most) return storableText(text)
  throw new SluiceError('option.invalid', `${name} is invalid. Expected a text of at most ${most} characters.`)
}
