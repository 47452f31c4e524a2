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
import type { Override } from '../../store/contract/overrides.ts'

/** Who changes a limit, and why: kept on record. */
export interface Remark {
  /** At most 255 characters. */
  by?: string
  /** At most 1,000 characters. */
  reason?: string
}

/** An override or a pause of a limit, in force or on record. */
export interface OverrideView {
  readonly limit: string
  /** Null: all keys; empty: the bucket of jobs without a key. */
  readonly key: string | null
  readonly kind: 'override' | 'pause'
  /** What it changes; null for a pause. */
  readonly change: PolicyChange | null
  readonly since: Date
  /** When it ends by itself. */
  readonly until: Date | null
  readonly by: string | null
  readonly reason: string | null
  /** When it ended; null: it is in force. */
  readonly ended: Date | null
  /** Who ended it, or put another in its place; null: its time was over, or nobody said. */
  readonly endedBy: string | null
}

/** An override as it is shown. */
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

/** The name of a limit that was given as itself or by its name. @throws option.invalid */
export function nameOf(limit: Limit | string): string {
  const name: unknown = typeof limit === 'object' && limit !== null ? limit.name : limit
  if (typeof name === 'string') return name
  throw new SluiceError('option.invalid', `A limit is ${show(limit)}; give its name, or the limit itself`)
}

/** A key as buckets have it: `''` is that of jobs without a key; null: none was given. @throws limit.key.invalid */
export function keyOf(key: Key | undefined, limit: string): string | null {
  if (key === undefined) return null
  const found = partitionKey(key, 'shared', `limit ${limit}`)
  return found.kind === 'key' ? found.key : null
}

/** An instant of the store's clock, given as one of the wall or as a time from now. @throws option.invalid, duration.invalid */
export function untilUsOf(until: Duration | Date, clock: Clock, nowUs: number): number {
  const nowMs = clock.now()
  const aheadUs = until instanceof Date ? Math.round((until.getTime() - nowMs) * 1000) : durationUs(until, 'until')
  if (aheadUs > 0) {
    checkInstant(nowMs + aheadUs / 1000, 'until')
    return nowUs + aheadUs
  }
  throw new SluiceError(
    'option.invalid',
    `until is ${until instanceof Date && Number.isFinite(until.getTime()) ? until.toISOString() : show(until)}, which is not ahead; give a later time`,
  )
}

/** Checks who and why. @throws option.invalid */
export function checkRemark({ by, reason }: Remark): { by: string | null; reason: string | null } {
  return { by: checkText(by, 'by', 255), reason: checkText(reason, 'reason', 1000) }
}

function checkText(text: unknown, name: string, most: number): string | null {
  if (text === undefined) return null
  if (typeof text === 'string' && text.length <= most) return storableText(text)
  throw new SluiceError(
    'option.invalid',
    `${name} is no text of at most ${most} characters; shorten it, or leave it out`,
  )
}
