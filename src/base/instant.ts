import { SluiceError } from './errors.ts'

/**
 * The first instant that no job, schedule or override may name: 2200-01-01, in epoch ms. Stores count in microseconds,
 * whose exact integers end in 2255. The margin covers limits, retries and retention.
 */
export const END_OF_TIME_MS = 7_258_118_400_000

/** The same in µs, as stores write instants. */
export const END_OF_TIME_US: number = END_OF_TIME_MS * 1000

/**
 * Checks an instant in epoch ms, given by a caller or computed. An instant before 1970 reads as 1970.
 *
 * @param what names the value in the message, as in `'runAt'`.
 * @throws {SluiceError} `option.invalid` for an invalid instant, or one in 2200 or later
 */
export function checkInstant(ms: number, what: string): number {
  if (ms < END_OF_TIME_MS) return Math.max(0, ms)
  const shown = Number.isNaN(ms) ? 'not a valid time' : ms > LAST_DATE_MS ? 'too far ahead' : new Date(ms).toISOString()
  throw new SluiceError('option.invalid', `${what} is invalid: ${shown}. Expected a time before 2200-01-01.`)
}

/** The last instant that a Date can hold. */
const LAST_DATE_MS = 8.64e15

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/

/**
 * Reads a text in RFC 3339, whose seconds may be left out, as epoch ms. Any other text is NaN, and so is a day that its
 * month does not have: `Date.parse` reads 31 February as 3 March.
 */
export function parseInstant(text: string): number {
  const [, year, month, day] = RFC_3339.exec(text) ?? []
  if (day === undefined || Number(day) > daysIn(Number(year), Number(month))) return Number.NaN
  return Date.parse(text)
}

function daysIn(year: number, month: number): number {
  return new Date(Date.UTC(year, month, 0)).getUTCDate()
}
