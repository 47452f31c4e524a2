/** Pages of lists: how many rows, and behind which place. A cursor belongs to one filter: elsewhere its place means nothing. */
import { createHash } from 'node:crypto'
import { SluiceError } from '../../base/errors.ts'
import { show } from '../../base/options.ts'

const VERSION = 1
const MAX_LIMIT = 1000

/** Checks how many rows a page has. @throws {SluiceError} `option.invalid` */
export function checkLimit(limit: unknown, what: string): void {
  if (typeof limit === 'number' && Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT) return
  throw invalid(what, `limit is invalid: ${show(limit)}. Expected 1 to 1,000.`)
}

/** The cursor of the page behind a place. @param filter the fields of the filter, in a fixed order */
export function writeCursor(place: number, filter: readonly unknown[]): string {
  return Buffer.from(`${VERSION}.${place}.${digestOf(filter)}`).toString('base64url')
}

/** The place behind which a page begins; null: at the beginning. @throws {SluiceError} `option.invalid` */
export function readCursor(cursor: unknown, filter: readonly unknown[], what: string): number | null {
  if (cursor === undefined || cursor === null) return null
  const text = typeof cursor === 'string' && cursor.length <= 100 ? Buffer.from(cursor, 'base64url').toString() : ''
  const [, place, digest] = /^1\.(\d{1,15})\.([0-9a-f]{16})$/.exec(text) ?? []
  if (place === undefined || Buffer.from(text).toString('base64url') !== cursor)
    throw invalid(what, `cursor is invalid: ${show(cursor)}. Expected the cursor of an earlier page.`)
  if (digest !== digestOf(filter))
    throw invalid(what, 'cursor is invalid: it belongs to another filter. Expected the filter of the first page.')
  return Number(place)
}

function digestOf(filter: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(filter)).digest('hex').slice(0, 16)
}

function invalid(what: string, why: string): SluiceError {
  return new SluiceError('option.invalid', `${what}: ${why}`)
}
