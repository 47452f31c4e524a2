import { SluiceError } from './errors.ts'
import { show } from './options.ts'

/** A length of time: milliseconds, a number with a unit (`'500ms' '5s' '1.5h' '7d'`), or ISO 8601 (`'PT1M' 'P1DT12H'`). */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}` | `P${string}`

/** A period of the calendar, whose length depends on the date and the time zone. */
export type CalendarUnit = 'hour' | 'day' | 'week' | 'month'

const SECOND_US = 1_000_000
const MINUTE_US = 60 * SECOND_US
const HOUR_US = 60 * MINUTE_US
const DAY_US = 24 * HOUR_US
const WEEK_US = 7 * DAY_US

/** The longest accepted duration: 100 years of 365.25 days, in µs. Sums of two stay exact integers. */
export const MAX_DURATION_US: number = 36_525 * DAY_US

const SHORT_UNITS_US: Readonly<Record<string, number>> = {
  ms: 1_000,
  s: SECOND_US,
  m: MINUTE_US,
  h: HOUR_US,
  d: DAY_US,
}
const ISO_UNITS_US: readonly number[] = [WEEK_US, DAY_US, HOUR_US, MINUTE_US, SECOND_US]

// Longer numbers have no use, and the arithmetic on fractions stays bounded.
const MAX_TEXT_LENGTH = 64

const SHORT = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/
const NUMBER = String.raw`\d+(?:[.,]\d+)?`
const ISO = new RegExp(
  `^P(?=.)(?:(${NUMBER})W)?(?:(${NUMBER})D)?(?:T(?=\\d)(?:(${NUMBER})H)?(?:(${NUMBER})M)?(?:(${NUMBER})S)?)?$`,
)
const ISO_WITH_YEARS_OR_MONTHS = /^P[^T]*[YM]/

const CALENDAR_UNITS: ReadonlyMap<string | number, CalendarUnit> = new Map([
  ['1h', 'hour'],
  ['PT1H', 'hour'],
  ['1d', 'day'],
  ['P1D', 'day'],
  ['1w', 'week'],
  ['P1W', 'week'],
  ['P1M', 'month'],
])

/**
 * Reads a duration as whole microseconds, from 0 to 100 years. Fractions of a microsecond round half up. ISO 8601 takes
 * weeks, days, hours, minutes and seconds. Only the last component may have a fraction.
 *
 * @param what names the value in the message, as in `'timeout of task tenant.sync'`.
 * @throws {SluiceError} `duration.invalid`
 */
export function durationUs(value: Duration, what: string): number {
  const us = typeof value === 'number' ? numberUs(value, what) : textUs(value, what)
  if (us > MAX_DURATION_US) throw invalid(value, what, 'is longer than 100 years')
  return us
}

/**
 * Reads a duration as whole milliseconds, from 0 to 100 years. It rounds up, so that no wait is too short.
 *
 * @param what names the value in the message.
 * @throws {SluiceError} `duration.invalid`
 */
export function durationMs(value: Duration, what: string): number {
  return Math.ceil(durationUs(value, what) / 1_000)
}

/**
 * Returns the calendar period that a text names: `'1h' '1d' '1w' 'P1M'` or `'PT1H' 'P1D' 'P1W'`. Any other text gives
 * null: `'1m'` is a minute, and `'24h'` is a fixed length of time.
 */
export function calendarUnit(value: string | number): CalendarUnit | null {
  return CALENDAR_UNITS.get(value) ?? null
}

function numberUs(value: number, what: string): number {
  if (Number.isNaN(value)) throw invalid(value, what, 'is not a number')
  if (value < 0) throw invalid(value, what, 'is negative')
  if (value === Infinity) throw invalid(value, what, 'has no end')
  // Adding 0 turns -0 into 0.
  return Math.round(value * 1_000) + 0
}

function textUs(value: string, what: string): number {
  if (typeof value !== 'string') throw invalid(value, what, 'is neither a text nor a number')
  if (value.length > MAX_TEXT_LENGTH) throw invalid(value, what, `is longer than ${MAX_TEXT_LENGTH} characters`)
  const short = SHORT.exec(value)
  if (short !== null) return componentUs(short[1] ?? '', SHORT_UNITS_US[short[2] ?? ''] ?? 0)
  const iso = ISO.exec(value)
  if (iso !== null) return isoUs(value, iso.slice(1), what)
  throw invalid(value, what, reason(value))
}

function isoUs(value: string, components: readonly (string | undefined)[], what: string): number {
  let us = 0
  let fraction = false
  for (const [index, component] of components.entries()) {
    if (component === undefined) continue
    if (fraction) throw invalid(value, what, 'has a fraction before its last component')
    fraction = /[.,]/.test(component)
    us += componentUs(component, ISO_UNITS_US[index] ?? 0)
  }
  return us
}

function componentUs(text: string, unitUs: number): number {
  const [whole = '', fraction] = text.split(/[.,]/)
  const wholeUs = Number(whole) * unitUs
  if (fraction === undefined) return wholeUs
  // In integers, since 0.1 has no exact binary form and a tie must round the same way for every unit.
  const scale = 10n ** BigInt(fraction.length)
  return wholeUs + Number((2n * BigInt(fraction) * BigInt(unitUs) + scale) / (2n * scale))
}

function reason(value: string): string {
  if (value === '') return 'is empty'
  if (/^[-+]/.test(value)) return 'has a sign'
  if (ISO_WITH_YEARS_OR_MONTHS.test(value)) return 'counts years or months, which have no fixed length; use days'
  if (/^\d+w$/.test(value)) return `has an unknown unit; write 'P${value.slice(0, -1)}W' for weeks`
  if (/^\d+(?:\.\d+)?$/.test(value)) return 'has no unit'
  return 'cannot be read'
}

function invalid(value: unknown, what: string, why: string): SluiceError {
  const shown = typeof value === 'string' ? JSON.stringify(value.slice(0, MAX_TEXT_LENGTH)) : show(value)
  const expected = "'500ms', '5s', '1m', '2h', '3d', ISO 8601 such as 'PT1M', or a number of milliseconds"
  return new SluiceError('duration.invalid', `${what} is invalid: ${shown} ${why}. Expected ${expected}.`)
}
