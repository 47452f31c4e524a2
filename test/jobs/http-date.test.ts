import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { httpDateMs } from '../../src/jobs/http-date.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const NOV_6_1994_MS = Date.UTC(1994, 10, 6, 8, 49, 37)

describe('httpDateMs', () => {
  test.each(['Sun, 06 Nov 1994 08:49:37 GMT', 'Sunday, 06-Nov-94 08:49:37 GMT', 'Sun Nov  6 08:49:37 1994'])(
    'reads %s',
    (text) => {
      expect(httpDateMs(text, NOW_MS)).toBe(NOV_6_1994_MS)
    },
  )

  test('reads a year of two digits as the one that is at most 50 years ahead', () => {
    expect(httpDateMs('Friday, 01-Jan-27 00:00:00 GMT', NOW_MS)).toBe(Date.UTC(2027, 0, 1))
    expect(httpDateMs('Friday, 01-Jan-75 00:00:00 GMT', NOW_MS)).toBe(Date.UTC(2075, 0, 1))
    expect(httpDateMs('Friday, 01-Jan-77 00:00:00 GMT', NOW_MS)).toBe(Date.UTC(1977, 0, 1))
    expect(httpDateMs('Friday, 01-Jan-05 00:00:00 GMT', Date.UTC(2099, 5, 1))).toBe(Date.UTC(2105, 0, 1))
  })

  test.each([
    '',
    'tomorrow',
    '5',
    '1994-11-06',
    'Sun, 06 Nov 1994 08:49:37',
    'Sun, 06 Nov 1994 08:49:37 CET',
    'Sun, 31 Nov 1994 08:49:37 GMT',
    'Sun, 00 Nov 1994 08:49:37 GMT',
    'Sun, 06 Foo 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 24:00:00 GMT',
    'Sun, 06 Nov 1994 08:60:37 GMT',
    'sun, 06 nov 1994 08:49:37 gmt',
    'Sunday, 31-Feb-94 08:49:37 GMT',
  ])('takes %j for no date', (text) => {
    expect(httpDateMs(text, NOW_MS)).toBeNull()
  })

  test('reads back what the platform writes', () => {
    fc.assert(
      fc.property(fc.date({ min: new Date(0), max: new Date('9999-12-31'), noInvalidDate: true }), (date) => {
        expect(httpDateMs(date.toUTCString(), NOW_MS)).toBe(Math.floor(date.getTime() / 1_000) * 1_000)
      }),
    )
  })
})
