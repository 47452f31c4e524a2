/** The terms of a change to a limit: which limit and key, until when, by whom and why. */
import type { Clock } from '../../base/clock.ts'
import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkInstant } from '../../base/instant.ts'
import { show } from '../../base/options.ts'
import { storableText } from '../../base/text.ts'
import type { Limit } from './define.ts'
import type { Key } from './key-path.ts'
import { partitionKey } from './partition-key.ts'

/** The author of a change, and the reason: both are recorded. */
export interface Remark {
  /** At most 255 characters. */
  by?: string
  /** At most 1,000 characters. */
  reason?: string
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
 * How long a change lasts, in µs, from an instant of the wall clock or a time from now.
 * @throws {SluiceError} `option.invalid`, `duration.invalid`
 */
export function lengthUsOf(until: Duration | Date, clock: Pick<Clock, 'now'>): number {
  const nowMs = clock.now()
  const lengthUs = until instanceof Date ? Math.round((until.getTime() - nowMs) * 1000) : durationUs(until, 'until')
  if (lengthUs > 0) {
    checkInstant(nowMs + lengthUs / 1000, 'until')
    return lengthUs
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
