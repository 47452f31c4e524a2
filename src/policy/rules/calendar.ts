import type { CalendarUnit } from '../../base/duration.ts'

/** One window of the calendar: [startUs, endUs), and its number, which grows by one from window to window. */
export interface CalendarWindow {
  readonly startUs: number
  readonly endUs: number
  readonly index: number
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

// Both hold one entry per time zone in use (and unit), so the number of time zones bounds them.
const formats = new Map<string, Intl.DateTimeFormat>()
const lastWindows = new Map<string, CalendarWindow>()

/** Whether the host's ICU knows an IANA time zone. */
export function isTimezone(timezone: string): boolean {
  try {
    formatOf(timezone)
    return true
  } catch {
    return false
  }
}

/**
 * The window that holds `wallUs`, by the wall clock of a time zone; weeks start on Monday.
 *
 * A day begins at the first instant that shows its date or a later one. It may begin at one o'clock if daylight saving
 * skips midnight, and lasts 23 to 25 hours. An hour begins when the clock shows a whole hour. A shift by half an hour
 * lengthens its window, never shortens it.
 */
export function calendarWindow(unit: CalendarUnit, timezone: string, wallUs: number): CalendarWindow {
  const key = `${unit} ${timezone}`
  const last = lastWindows.get(key)
  if (last !== undefined && wallUs >= last.startUs && wallUs < last.endUs) return last
  const window = find(unit, timezone, Math.floor(wallUs / 1_000))
  lastWindows.set(key, window)
  return window
}

/** The start of a window by its number. If the time zone skips that date or hour, the next one. */
export function calendarStartUs(unit: CalendarUnit, timezone: string, index: number): number {
  return startMs(unit, timezone, index) * 1_000
}

/** Whole windows of the calendar that begin after `fromUs`'s window begins and not after `toUs`'s window does. */
export function windowsBetween(unit: CalendarUnit, timezone: string, fromUs: number, toUs: number): number {
  return calendarWindow(unit, timezone, toUs).index - calendarWindow(unit, timezone, fromUs).index
}

function find(unit: CalendarUnit, timezone: string, ms: number): CalendarWindow {
  let index = indexAt(unit, timezone, ms)
  // When a clock goes back over midnight the old date shows again, but the new day has begun.
  while (startMs(unit, timezone, index + 1) <= ms) index++
  let start = startMs(unit, timezone, index)
  while (start > ms) start = startMs(unit, timezone, --index)
  return { startUs: start * 1_000, endUs: startMs(unit, timezone, index + 1) * 1_000, index }
}

function indexAt(unit: CalendarUnit, timezone: string, ms: number): number {
  if (unit === 'hour') return Math.floor(ms / HOUR_MS)
  const localMs = ms + offsetMs(timezone, ms)
  const day = Math.floor(localMs / DAY_MS)
  if (unit === 'day') return day
  // 1970-01-01 was a Thursday.
  if (unit === 'week') return Math.floor((day + 3) / 7)
  const date = new Date(localMs)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

function startMs(unit: CalendarUnit, timezone: string, index: number): number {
  if (unit === 'hour') return firstWholeHour(timezone, index * HOUR_MS)
  if (unit === 'day') return firstInstant(timezone, index * DAY_MS)
  if (unit === 'week') return firstInstant(timezone, (index * 7 - 3) * DAY_MS)
  return firstInstant(timezone, Date.UTC(Math.floor(index / 12), index - 12 * Math.floor(index / 12), 1))
}

/** The first instant that shows this local time, given as if it were UTC, or a later one. */
function firstInstant(timezone: string, localMs: number): number {
  const fromMs = localMs - DAY_MS
  const toMs = localMs + DAY_MS
  const before = offsetMs(timezone, fromMs)
  const after = offsetMs(timezone, toMs)
  if (before === after) return localMs - before
  const changeMs = changeBetween(timezone, fromMs, toMs)
  if (localMs - before < changeMs) return localMs - before
  return Math.max(changeMs, localMs - after)
}

/** The first instant from `fromMs` at which the clock shows a whole hour. */
function firstWholeHour(timezone: string, fromMs: number): number {
  const offset = offsetMs(timezone, fromMs)
  const next = nextMultiple(fromMs, offset)
  const after = offsetMs(timezone, next)
  if (after === offset || (after - offset) % HOUR_MS === 0) return next
  const changeMs = changeBetween(timezone, fromMs, next)
  return nextMultiple(changeMs, after)
}

function nextMultiple(fromMs: number, offset: number): number {
  return Math.ceil((fromMs + offset) / HOUR_MS) * HOUR_MS - offset
}

/** The instant in (fromMs, toMs] at which the offset becomes that of `toMs`. The two differ, and it changes once. */
function changeBetween(timezone: string, fromMs: number, toMs: number): number {
  const after = offsetMs(timezone, toMs)
  let low = Math.floor(fromMs / 1_000)
  let high = Math.ceil(toMs / 1_000)
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (offsetMs(timezone, middle * 1_000) === after) high = middle
    else low = middle
  }
  return high * 1_000
}

/** The offset of local time from UTC, in ms. */
function offsetMs(timezone: string, ms: number): number {
  const wholeMs = Math.floor(ms / 1_000) * 1_000
  const fields: Record<string, number> = {}
  for (const { type, value } of formatOf(timezone).formatToParts(wholeMs)) {
    if (type !== 'literal') fields[type] = Number(value)
  }
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = fields
  return Date.UTC(year, month - 1, day, hour, minute, second) - wholeMs
}

function formatOf(timezone: string): Intl.DateTimeFormat {
  let format = formats.get(timezone)
  if (format === undefined) {
    const numeric = 'numeric'
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: timezone,
      calendar: 'iso8601',
      hourCycle: 'h23',
      year: numeric,
      month: numeric,
      day: numeric,
      hour: numeric,
      minute: numeric,
      second: numeric,
    })
    formats.set(timezone, format)
  }
  return format
}
