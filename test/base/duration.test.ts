import * as fc from '../properties.ts'
import { Temporal } from 'temporal-polyfill'
import { describe, expect, test } from 'vitest'
import { calendarUnit, durationMs, durationUs, MAX_DURATION_US, type Duration } from '../../src/base/duration.ts'

const read = (value: unknown): number => durationUs(value as Duration, 'timeout')

describe('durationUs', () => {
  test.each([
    [0, 0],
    [-0, 0],
    [1, 1_000],
    [1.5, 1_500],
    [0.0004, 0],
    [0.0005, 1],
    ['0s', 0],
    ['500ms', 500_000],
    ['0.5ms', 500],
    ['1.5s', 1_500_000],
    ['2m', 120_000_000],
    ['1h', 3_600_000_000],
    ['7d', 604_800_000_000],
    ['0.0000005s', 1],
    ['0.0000004s', 0],
    ['PT0S', 0],
    ['PT0.5S', 500_000],
    ['PT0,5S', 500_000],
    ['PT1M', 60_000_000],
    ['PT1.5H', 5_400_000_000],
    ['P1D', 86_400_000_000],
    ['P1.5D', 129_600_000_000],
    ['P1W', 604_800_000_000],
    ['P1W2DT3H4M5.6S', 604_800_000_000 + 172_800_000_000 + 10_800_000_000 + 240_000_000 + 5_600_000],
    ['PT36H', 129_600_000_000],
  ])('reads %j as %d µs', (value, us) => {
    expect(read(value)).toBe(us)
  })

  test.each([
    [Number.NaN, 'not a number'],
    [-1, 'negative'],
    [-0.0001, 'negative'],
    [Infinity, 'no end'],
    ['', 'empty'],
    ['1x', 'cannot be read'],
    ['5', 'no unit'],
    ['s', 'cannot be read'],
    ['1e3s', 'cannot be read'],
    ['.5s', 'cannot be read'],
    ['1.s', 'cannot be read'],
    ['1 s', 'cannot be read'],
    [' 1s', 'cannot be read'],
    ['1s\n', 'cannot be read'],
    ['1S', 'cannot be read'],
    ['1m30s', 'cannot be read'],
    ['0x10s', 'cannot be read'],
    ['Infinitys', 'cannot be read'],
    ['-1s', 'sign'],
    ['+1s', 'sign'],
    ['-PT1S', 'sign'],
    ['1w', "'P1W'"],
    ['P', 'cannot be read'],
    ['PT', 'cannot be read'],
    ['P1DT', 'cannot be read'],
    ['P1M', 'no fixed length'],
    ['P1Y', 'no fixed length'],
    ['P1Y2DT3H', 'no fixed length'],
    ['PT1H30', 'cannot be read'],
    ['PT30S1H', 'cannot be read'],
    ['PT1S1S', 'cannot be read'],
    ['PT-1S', 'cannot be read'],
    ['P1H', 'cannot be read'],
    ['pt1s', 'cannot be read'],
    ['PT1.5H30M', 'fraction before its last component'],
    ['36526d', '100 years'],
    ['P99999999999999999999D', '100 years'],
    [1e300, '100 years'],
    [`${'1'.repeat(70)}s`, '64 characters'],
    [null, 'neither a text nor a number'],
    [undefined, 'neither a text nor a number'],
    [5n, 'neither a text nor a number'],
    [{}, 'neither a text nor a number'],
  ])('refuses %o, because it is %s', (value, why) => {
    expect(() => read(value)).toThrow(
      expect.objectContaining({ code: 'duration.invalid', message: expect.stringContaining(why) as string }),
    )
  })

  test('names in the message what the duration was for', () => {
    expect(() => durationUs('1x' as Duration, 'timeout of task tenant.sync')).toThrow(
      /^timeout of task tenant\.sync is invalid: "1x"/,
    )
  })

  test('accepts exactly 100 years', () => {
    expect(read('36525d')).toBe(MAX_DURATION_US)
    expect(Number.isSafeInteger(2 * MAX_DURATION_US)).toBe(true)
  })

  test('agrees with Temporal on every ISO 8601 duration of weeks to seconds', () => {
    const part = (max: number): fc.Arbitrary<number | null> => fc.option(fc.nat({ max }), { freq: 2 })
    const parts = fc.tuple(part(99), part(999), part(9_999), part(99_999), part(999_999))
    // Three digits of a fraction of µs cannot be rounded differently, as Temporal rounds the ns that it keeps.
    const fraction = fc.option(fc.stringMatching(/^\d{1,9}$/))
    fc.assert(
      fc.property(parts, fraction, ([weeks, days, hours, minutes, seconds], digits) => {
        const time = [
          [hours, 'H'],
          [minutes, 'M'],
          [seconds, 'S'],
        ].flatMap(([value, unit]) => (value === null ? [] : [`${value}${unit}`]))
        if (digits !== null && time.length > 0) time.push(time.pop()?.replace(/(\d+)(.)$/, `$1.${digits}$2`) ?? '')
        const date = `${weeks === null ? '' : `${weeks}W`}${days === null ? '' : `${days}D`}`
        const text = `P${date}${time.length === 0 ? '' : `T${time.join('')}`}`
        fc.pre(text !== 'P')
        const exact = Temporal.Duration.from(text).round({
          smallestUnit: 'microsecond',
          largestUnit: 'hour',
          relativeTo: '2026-01-01',
        })
        // Temporal cuts below the nanosecond, so that a tie there may fall to the other side.
        expect(Math.abs(read(text) - exact.total('microseconds'))).toBeLessThanOrEqual(
          digits === null || seconds !== null ? 0 : 1,
        )
      }),
      { numRuns: 500 },
    )
  })

  test('refuses whatever Temporal refuses', () => {
    const text = fc.stringMatching(/^P[0-9WDTHMS.]{1,8}$/)
    fc.assert(
      fc.property(text, (iso) => {
        // The one thing ours takes and Temporal does not: a fraction of a week or a day.
        fc.pre(!/\.\d+[WD]$/.test(iso))
        let ours = true
        try {
          read(iso)
        } catch {
          ours = false
        }
        if (ours) expect(() => Temporal.Duration.from(iso)).not.toThrow()
      }),
      { numRuns: 2_000 },
    )
  })

  test('reads a number with a unit as that many units', () => {
    const units = { ms: 1_000, s: 1e6, m: 6e7, h: 3.6e9, d: 8.64e10 } as const
    fc.assert(
      fc.property(fc.nat({ max: 36_525 }), fc.constantFrom(...Object.entries(units)), (count, [unit, us]) => {
        expect(read(`${count}${unit}`)).toBe(count * us)
      }),
    )
  })
})

describe('durationMs', () => {
  test('rounds up, so that no wait is shorter than was asked', () => {
    expect(durationMs('1.5s', 'x')).toBe(1_500)
    expect(durationMs(0.001, 'x')).toBe(1)
    expect(durationMs(0, 'x')).toBe(0)
  })
})

describe('calendarUnit', () => {
  test.each([
    ['1h', 'hour'],
    ['PT1H', 'hour'],
    ['1d', 'day'],
    ['P1D', 'day'],
    ['1w', 'week'],
    ['P1W', 'week'],
    ['P1M', 'month'],
    ['1m', null],
    ['PT1M', null],
    ['24h', null],
    ['P7D', null],
    [3_600_000, null],
    ['', null],
  ])('takes %j for %j', (value, unit) => {
    expect(calendarUnit(value)).toBe(unit)
  })
})
