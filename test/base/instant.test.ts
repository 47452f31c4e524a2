import { expect, test } from 'vitest'
import { checkInstant, END_OF_TIME_MS, parseInstant } from '../../src/base/instant.ts'

test('an instant before 2200 is as it is, and what is before 1970 reads as 1970', () => {
  expect(END_OF_TIME_MS).toBe(Date.UTC(2200, 0, 1))
  expect(checkInstant(END_OF_TIME_MS - 1, 'runAt')).toBe(END_OF_TIME_MS - 1)
  for (const past of [0, -1, -8.64e15, -Infinity]) expect(checkInstant(past, 'runAt')).toBe(0)
})

test.each([END_OF_TIME_MS, 8.64e15, 1e300, Infinity, Number.NaN])('%s is refused', (ms) => {
  expect(() => checkInstant(ms, 'runAt')).toThrow(
    expect.objectContaining({ code: 'option.invalid', message: expect.stringContaining('2200-01-01') as string }),
  )
})

test.each([
  ['2028-02-29T00:00:00Z', Date.UTC(2028, 1, 29)],
  ['2030-01-31T12:00+02:00', Date.UTC(2030, 0, 31, 10)],
  ['2030-01-31T12:00:00.123456Z', Date.UTC(2030, 0, 31, 12, 0, 0, 123)],
])('the text %s is read', (text, ms) => {
  expect(parseInstant(text)).toBe(ms)
})

test.each([
  '2030-02-29T00:00:00Z',
  '2030-04-31T00:00:00Z',
  '2030-13-01T00:00:00Z',
  '2030-00-01T00:00:00Z',
  '2030-01-31',
])('the text %s is no instant', (text) => {
  expect(parseInstant(text)).toBeNaN()
})
