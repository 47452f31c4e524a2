import { Cron } from 'croner'
import { assert, constantFrom, integer, property } from '../properties.ts'
import { describe, expect, test, vi } from 'vitest'
import { duesWithin, firstDueUs, latestDuesUs, type Recurrence, recurrenceOf } from '../../src/jobs/recurrence.ts'

const at = (text: string): number => Date.parse(text) * 1000
const iso = (us: number | null): string => (us === null ? 'never' : new Date(us / 1000).toISOString())
const cron = (expression: string, timezone = 'UTC'): Recurrence => recurrenceOf({ cron: expression, timezone }, 'x')

/** The due times of a recurrence from one instant to another. */
function dues(recurrence: Recurrence, from: string, to: string): string[] {
  const found: string[] = []
  for (let us = firstDueUs(recurrence, 0, at(from)); us !== null && us < at(to); us = firstDueUs(recurrence, 0, us + 1))
    found.push(iso(us))
  return found
}

describe('even distances', () => {
  const every = recurrenceOf({ every: '1.5s' }, 'x')

  test('an instant of the grid is its own first due time, a microsecond later it is the next', () => {
    expect(firstDueUs(every, 7, 7)).toBe(7)
    expect(firstDueUs(every, 7, 8)).toBe(1_500_007)
    expect(firstDueUs(every, 7, -1_500_000)).toBe(-1_499_993)
  })

  test('hold for any grid: the first due time lies less than one distance ahead, on the grid', () => {
    const us = integer({ min: -1e15, max: 1e15 })
    assert(
      property(us, us, integer({ min: 10_000, max: 1e12 }), (anchorUs, fromUs, everyUs) => {
        const due = firstDueUs({ kind: 'every', everyUs }, anchorUs, fromUs) ?? Number.NaN
        expect(due - fromUs).toBeGreaterThanOrEqual(0)
        expect(due - fromUs).toBeLessThan(everyUs)
        expect((due - anchorUs) % everyUs === 0).toBe(true)
      }),
    )
  })

  test('the latest due times include both ends, and are bounded', () => {
    expect(latestDuesUs(every, 0, 4_500_000, 10)).toEqual([0, 1_500_000, 3_000_000, 4_500_000])
    expect(latestDuesUs(every, 0, 4_499_999, 2)).toEqual([1_500_000, 3_000_000])
    expect(latestDuesUs(every, 10, 9, 2)).toEqual([])
  })

  test('a period holds as many as start in it', () => {
    expect(duesWithin(every, 0, 1_500_000, 9)).toBe(1)
    expect(duesWithin(every, 0, 1_500_001, 9)).toBe(2)
    expect(duesWithin(every, 0, 1e12, 9)).toBe(9)
  })
})

describe('a cron', () => {
  test('is read in its time zone, UTC by default', () => {
    const nine = (timezone?: string): string =>
      iso(firstDueUs(recurrenceOf({ cron: '0 9 * * *', timezone }, 'x'), 0, at('2026-01-10T00:00:00Z')))
    expect(nine()).toBe('2026-01-10T09:00:00.000Z')
    expect(nine('America/New_York')).toBe('2026-01-10T14:00:00.000Z')
  })

  test('an instant at which it is due is its own first due time', () => {
    const due = at('2026-01-10T09:00:00Z')
    expect(firstDueUs(cron('0 9 * * *'), 0, due)).toBe(due)
    expect(iso(firstDueUs(cron('0 9 * * *'), 0, due + 1))).toBe('2026-01-11T09:00:00.000Z')
    expect(firstDueUs(cron('0 9 * * *'), 0, due - 1)).toBe(due)
  })

  test('takes seconds as a first of six fields, names and nicknames', () => {
    expect(dues(cron('*/20 * * * * *'), '2026-01-01T00:00:00Z', '2026-01-01T00:01:00Z')).toHaveLength(3)
    expect(dues(cron('0 8 * * MON'), '2026-01-01T00:00:00Z', '2026-01-15T00:00:00Z')).toEqual([
      '2026-01-05T08:00:00.000Z',
      '2026-01-12T08:00:00.000Z',
    ])
    expect(dues(cron('@monthly'), '2026-01-02T00:00:00Z', '2026-03-02T00:00:00Z')).toHaveLength(2)
  })

  test('of one time of day is due once where the clock leaves that time out, and once where it shows it twice', () => {
    const nightly = cron('30 2 * * *', 'Europe/Berlin')
    // On 29 March 02:00 becomes 03:00, on 25 October 03:00 becomes 02:00.
    expect(dues(nightly, '2026-03-28T00:00:00Z', '2026-03-31T00:00:00Z')).toEqual([
      '2026-03-28T01:30:00.000Z',
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T00:30:00.000Z',
    ])
    expect(dues(nightly, '2026-10-24T00:00:00Z', '2026-10-27T00:00:00Z')).toEqual([
      '2026-10-24T00:30:00.000Z',
      '2026-10-25T00:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
    ])
  })

  test('of every hour is due each hour that passes, however often the clock shows it', () => {
    const hourly = cron('0 * * * *', 'Europe/Berlin')
    expect(dues(hourly, '2026-03-29T00:00:00Z', '2026-03-29T04:00:00Z')).toHaveLength(4)
    expect(dues(hourly, '2026-10-25T00:00:00Z', '2026-10-25T04:00:00Z')).toHaveLength(4)
  })

  test('looks back as it looks ahead, over changes to daylight saving too', () => {
    // With the days in which a look ahead finds enough of them.
    const patterns = [
      ['30 2 * * *', 40],
      ['*/15 * * * *', 2],
      ['*/7 1-3 * * *', 4],
      ['0 0 L * *', 40],
      ['0 9 * * MON#1', 40],
      ['0 0 1 * *', 40],
    ] as const
    const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe']
    assert(
      property(
        constantFrom(...patterns),
        constantFrom(...zones),
        constantFrom('2026-03-27', '2026-10-24', '2026-11-01', '2026-04-04'),
        integer({ min: 0, max: 3 * 86_400_000 }),
        ([pattern, days], zone, day, ms) => {
          const recurrence = cron(pattern, zone)
          const toUs = at(`${day}T00:00:00Z`) + ms * 1000
          const ahead: number[] = []
          const first = firstDueUs(recurrence, 0, toUs - days * 86_400_000_000) ?? Number.NaN
          for (let us: number | null = first; us !== null && us <= toUs; us = firstDueUs(recurrence, 0, us + 1))
            ahead.push(us)
          expect(latestDuesUs(recurrence, first, toUs, 5)).toEqual(ahead.slice(-5))
        },
      ),
      { numRuns: 60 },
    )
  })

  test('the calendar is asked for the due times that there are, not for as many as may be caught up with', () => {
    const at9 = firstDueUs(cron('0 9 * * *'), 0, 0) as number
    const ahead = vi.spyOn(Cron.prototype, 'nextRun')
    const back = vi.spyOn(Cron.prototype, 'previousRuns')
    expect(latestDuesUs(cron('0 9 * * *'), at9, at9 + 86_400_000_000, 1000)).toHaveLength(2)
    expect(ahead.mock.calls.length).toBeLessThan(5)
    expect(back).not.toHaveBeenCalled()
    vi.restoreAllMocks()
  })

  test('the latest due times begin with the one that is named, though the calendar does not hold it', () => {
    const at9 = at('2026-01-10T09:00:00Z')
    expect(latestDuesUs(cron('0 9 * * *'), at9 - 5, at9, 9)).toEqual([at9 - 5, at9])
    expect(latestDuesUs(cron('0 9 * * *'), at9 - 5, at9, 1)).toEqual([at9])
    expect(latestDuesUs(cron('0 9 * * *'), at9, at9 - 1, 1)).toEqual([])
  })

  test('a period holds as many as start in it', () => {
    expect(duesWithin(cron('* * * * *'), at('2026-01-01T00:00:00Z'), 60_000_000, 9)).toBe(1)
    expect(duesWithin(cron('* * * * *'), at('2026-01-01T00:00:00Z'), 90_000_000, 9)).toBe(2)
    expect(duesWithin(cron('* * * * *'), at('2026-01-01T00:00:00Z'), 1e12, 9)).toBe(9)
  })
})

describe('what cannot be a recurrence is refused', () => {
  test.each([
    [{}, 'neither every nor cron is there'],
    [{ every: '1s', cron: '* * * * *' }, 'every and cron exclude each other'],
    [{ every: '1s', timezone: 'UTC' }, 'timezone belongs to cron'],
    [{ every: '9ms' }, 'Expected at least 10 ms'],
    [{ cron: '61 * * * *' }, 'Invalid value'],
    [{ cron: '* * * *' }, 'Expected 5 fields'],
    [{ cron: '* * * * * * *' }, 'Expected 5 fields'],
    [{ cron: '2026-01-01T00:00:00' }, 'Expected 5 fields'],
    [{ cron: '0 0 30 2 *' }, 'never due'],
    [{ cron: '@reboot' }, 'cron is invalid'],
    [{ cron: '@daily', timezone: 'Europe/Pari' }, 'timezone is invalid'],
    [{ cron: '0 0 * * *', timezone: 'Mars/Olympus' }, 'Mars/Olympus'],
    [{ cron: 'x'.repeat(256) }, 'at most 255'],
  ] as const)('%j', (options, message) => {
    expect(() => recurrenceOf(options, 'schedule nightly')).toThrow(
      expect.objectContaining({ code: 'schedule.invalid', message: expect.stringContaining(message) as string }),
    )
  })

  test('a length of time that cannot be read keeps its own code', () => {
    expect(() => recurrenceOf({ every: '1 hour' as '1h' }, 'x')).toThrow(
      expect.objectContaining({ code: 'duration.invalid' }),
    )
  })
})
