import * as fc from '../properties.ts'
import { Temporal } from 'temporal-polyfill'
import { describe, expect, test } from 'vitest'
import type { CalendarUnit } from '../../src/base/duration.ts'
import { adopt, charge, deniedUntil, newBucket, penalize, refund, view } from '../../src/policy/limits/bucket.ts'
import { calendarWindow, isTimezone } from '../../src/policy/rules/calendar.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import { EPOCH_US, policyOf, SECOND } from './histories.ts'

const HOUR = 3600 * SECOND
const DAY = 24 * HOUR

function at(text: string): number {
  return Date.parse(text) * 1000
}

function calendar(max: number, unit: CalendarUnit, timezone: string, wallOffsetUs?: number): LimitPolicy {
  const window = { align: 'calendar' as const, unit, timezone, ...(wallOffsetUs === undefined ? {} : { wallOffsetUs }) }
  return policyOf({ kind: 'fixed', max, window, guardUs: 0 })
}

function edges(unit: CalendarUnit, timezone: string, text: string): string[] {
  const { startUs, endUs } = calendarWindow(unit, timezone, at(text))
  return [startUs, endUs].map((us) => new Date(us / 1000).toISOString().slice(0, 16))
}

describe('windows of the calendar', () => {
  test.each<[CalendarUnit, string, string, string, string]>([
    // Spring and autumn in Paris: days of 23 and 25 hours.
    ['day', 'Europe/Paris', '2026-03-29T12:00Z', '2026-03-28T23:00', '2026-03-29T22:00'],
    ['day', 'Europe/Paris', '2026-10-25T12:00Z', '2026-10-24T22:00', '2026-10-25T23:00'],
    ['week', 'Europe/Paris', '2026-03-29T12:00Z', '2026-03-22T23:00', '2026-03-29T22:00'],
    ['month', 'Europe/Paris', '2026-03-01T00:00Z', '2026-02-28T23:00', '2026-03-31T22:00'],
    ['month', 'UTC', '2024-02-29T23:59:59Z', '2024-02-01T00:00', '2024-03-01T00:00'],
    ['month', 'UTC', '2026-12-31T00:00Z', '2026-12-01T00:00', '2027-01-01T00:00'],
    ['week', 'UTC', '2026-11-16T00:00Z', '2026-11-16T00:00', '2026-11-23T00:00'],
    ['week', 'UTC', '2026-11-15T23:59:59Z', '2026-11-09T00:00', '2026-11-16T00:00'],
    // Midnight does not exist: Cairo goes from 24:00 to 01:00, Santiago and Beirut do alike.
    ['day', 'Africa/Cairo', '2024-04-26T12:00Z', '2024-04-25T22:00', '2024-04-26T21:00'],
    ['day', 'America/Santiago', '2024-09-08T12:00Z', '2024-09-08T04:00', '2024-09-09T03:00'],
    // Midnight shows twice in Havana: the day begins at the first.
    ['day', 'America/Havana', '2024-11-03T12:00Z', '2024-11-03T04:00', '2024-11-04T05:00'],
    // At 00:01 the clock went back to the day before; the new day had begun.
    ['day', 'America/St_Johns', '2010-11-07T03:00Z', '2010-11-07T02:30', '2010-11-08T03:30'],
    // A date that Samoa left out.
    ['day', 'Pacific/Apia', '2011-12-30T09:00Z', '2011-12-29T10:00', '2011-12-30T10:00'],
    ['day', 'Pacific/Apia', '2011-12-30T11:00Z', '2011-12-30T10:00', '2011-12-31T10:00'],
    // Hours of zones that are half an hour off, and of one that shifts by half an hour.
    ['hour', 'Asia/Kolkata', '2026-01-01T00:29Z', '2025-12-31T23:30', '2026-01-01T00:30'],
    ['hour', 'Asia/Kathmandu', '2026-01-01T00:20Z', '2026-01-01T00:15', '2026-01-01T01:15'],
    ['hour', 'Europe/Paris', '2026-10-25T00:30Z', '2026-10-25T00:00', '2026-10-25T01:00'],
    ['hour', 'Australia/Lord_Howe', '2026-04-04T15:15Z', '2026-04-04T14:00', '2026-04-04T15:30'],
    ['hour', 'Australia/Lord_Howe', '2026-10-03T15:45Z', '2026-10-03T14:30', '2026-10-03T16:00'],
  ])('the %s in %s at %s', (unit, timezone, text, start, end) => {
    expect(edges(unit, timezone, text)).toEqual([start, end])
  })

  test('days, weeks and months are those of Temporal', () => {
    const zones = [
      'UTC',
      'Europe/Paris',
      'America/New_York',
      'Asia/Kolkata',
      'Australia/Lord_Howe',
      'Asia/Kathmandu',
      'Africa/Cairo',
      'Pacific/Chatham',
    ]
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.constantFrom('day' as const, 'week' as const, 'month' as const),
        fc.integer({ min: at('2024-01-01'), max: at('2035-01-01') }),
        (timezone, unit, us) => {
          const date = Temporal.Instant.fromEpochMilliseconds(Math.floor(us / 1000))
            .toZonedDateTimeISO(timezone)
            .toPlainDate()
          const back = { day: 0, week: date.dayOfWeek - 1, month: date.day - 1 }[unit]
          const first = date.subtract({ days: back })
          const next = first.add(unit === 'month' ? { months: 1 } : { days: unit === 'week' ? 7 : 1 })
          const { startUs, endUs } = calendarWindow(unit, timezone, us)
          expect(startUs).toBe(first.toZonedDateTime(timezone).startOfDay().epochMilliseconds * 1000)
          expect(endUs).toBe(next.toZonedDateTime(timezone).startOfDay().epochMilliseconds * 1000)
        },
      ),
      { numRuns: 500 },
    )
  })

  test('windows follow one another without gap, hours included', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('Australia/Lord_Howe', 'America/Havana', 'America/St_Johns', 'Asia/Kathmandu'),
        fc.constantFrom<CalendarUnit>('hour', 'day', 'week', 'month'),
        fc.integer({ min: at('2005-01-01'), max: at('2028-01-01') }),
        (timezone, unit, us) => {
          const window = calendarWindow(unit, timezone, us)
          expect(window.startUs).toBeLessThanOrEqual(us)
          expect(window.endUs).toBeGreaterThan(us)
          expect(calendarWindow(unit, timezone, window.endUs).startUs).toBe(window.endUs)
          expect(calendarWindow(unit, timezone, window.startUs - 1).endUs).toBe(window.startUs)
          expect(calendarWindow(unit, timezone, window.endUs - 1)).toEqual(window)
        },
      ),
      { numRuns: 300 },
    )
  })

  test('a zone that does not exist is told from one that does', () => {
    expect(isTimezone('Europe/Paris')).toBe(true)
    expect(isTimezone('Europe/Atlantis')).toBe(false)
  })

  test('a daily budget is new at local midnight, and the wall clock decides', () => {
    const policy = calendar(2, 'day', 'Europe/Paris')
    const nowUs = at('2026-03-28T22:30Z')
    const state = newBucket(policy, nowUs)
    charge(policy, state, nowUs, 2)
    expect(deniedUntil(policy, state, 0, nowUs, 1)).toBe(at('2026-03-28T23:00Z'))
    charge(policy, state, at('2026-03-28T23:00Z'), 2)
    expect(deniedUntil(policy, state, 0, at('2026-03-28T23:00Z'), 1)).toBe(at('2026-03-29T22:00Z'))
    // The wall is an hour ahead of the store: midnight comes an hour of the store earlier.
    const ahead = calendar(2, 'day', 'Europe/Paris', HOUR)
    const offset = newBucket(ahead, nowUs)
    charge(ahead, offset, nowUs, 2)
    expect(deniedUntil(ahead, offset, 0, nowUs, 1)).toBe(at('2026-03-29T21:00Z'))
  })

  test('debt of calendar windows is paid window by window', () => {
    const policy = calendar(10, 'month', 'America/New_York')
    const nowUs = at('2026-01-15T12:00Z')
    const state = newBucket(policy, nowUs)
    charge(policy, state, nowUs, 35)
    expect(deniedUntil(policy, state, 0, nowUs, 1)).toBe(at('2026-04-01T04:00Z'))
    expect(deniedUntil(policy, state, 0, at('2026-04-01T04:00Z'), 5)).toBeNull()
    expect(deniedUntil(policy, state, 0, at('2026-04-01T04:00Z'), 6)).toBe(at('2026-05-01T04:00Z'))
  })
})

describe('windows of the epoch', () => {
  const window = { align: 'epoch' as const, periodUs: 10 * SECOND }

  test('the budget is new at each edge', () => {
    const policy = policyOf({ kind: 'fixed', max: 3, window, guardUs: 0 })
    const state = newBucket(policy, EPOCH_US)
    charge(policy, state, EPOCH_US + 9 * SECOND, 3)
    expect(deniedUntil(policy, state, 0, EPOCH_US + 9 * SECOND, 1)).toBe(EPOCH_US + 10 * SECOND)
    expect(deniedUntil(policy, state, 0, EPOCH_US + 10 * SECOND, 3)).toBeNull()
  })

  test('a start within the guard of an edge waits for it, also when a penalty ends there', () => {
    const policy = policyOf({ kind: 'fixed', max: 3, window, guardUs: SECOND })
    const state = newBucket(policy, EPOCH_US)
    expect(deniedUntil(policy, state, 0, EPOCH_US + 9 * SECOND, 1)).toBeNull()
    expect(deniedUntil(policy, state, 0, EPOCH_US + 9 * SECOND + 1, 1)).toBe(EPOCH_US + 10 * SECOND)
    penalize(policy, state, EPOCH_US + 19.5 * SECOND, EPOCH_US)
    expect(deniedUntil(policy, state, 0, EPOCH_US, 1)).toBe(EPOCH_US + 20 * SECOND)
  })

  test('a refund counts only in the window that paid', () => {
    const policy = policyOf({ kind: 'fixed', max: 3, window, guardUs: 0 })
    const state = newBucket(policy, EPOCH_US)
    charge(policy, state, EPOCH_US, 2)
    charge(policy, state, EPOCH_US + 10 * SECOND, 2)
    refund(policy, state, EPOCH_US + 11 * SECOND, 2, EPOCH_US)
    expect(view(policy, state, 0, EPOCH_US + 11 * SECOND).available).toBe(1)
    refund(policy, state, EPOCH_US + 11 * SECOND, 2, EPOCH_US + 10 * SECOND)
    expect(view(policy, state, 0, EPOCH_US + 11 * SECOND).available).toBe(3)
  })

  test('what was used in a day stays used when the windows become another zone’s', () => {
    const utc = calendar(5, 'day', 'UTC')
    const tokyo = calendar(5, 'day', 'Asia/Tokyo')
    const state = newBucket(utc, EPOCH_US)
    charge(utc, state, EPOCH_US, 4)
    const moved = adopt(utc, tokyo, state, EPOCH_US)
    expect(view(tokyo, moved, 0, EPOCH_US)).toMatchObject({ available: 1, nextAtUs: EPOCH_US })
    expect(view(tokyo, moved, 0, EPOCH_US + DAY).available).toBe(5)
  })
})
