import { expect, test } from 'vitest'
import { checkInstant, END_OF_TIME_MS } from '../../src/base/instant.ts'

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
