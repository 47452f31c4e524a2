import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { seededRandom, systemRandom } from '../../src/base/random.ts'

describe('seededRandom', () => {
  test('gives the published numbers of mulberry32', () => {
    const random = seededRandom(42)
    expect([random.next(), random.next(), random.next()]).toEqual([
      0.6011037519201636, 0.44829055899754167, 0.8524657934904099,
    ])
  })

  test('repeats itself for every seed, and stays from 0 to below 1', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true }), (seed) => {
        const [a, b] = [seededRandom(seed), seededRandom(seed)]
        for (let n = 0; n < 20; n++) {
          const value = a.next()
          expect(value).toBe(b.next())
          expect(value >= 0 && value < 1).toBe(true)
        }
      }),
    )
  })

  test('spreads evenly', () => {
    const random = seededRandom(7)
    const tenths = Array.from({ length: 10 }, () => 0)
    for (let n = 0; n < 100_000; n++) {
      const tenth = Math.floor(random.next() * 10)
      tenths[tenth] = (tenths[tenth] ?? 0) + 1
    }
    for (const count of tenths) expect(Math.abs(count - 10_000)).toBeLessThan(500)
  })
})

test('systemRandom stays from 0 to below 1 and varies', () => {
  const values = Array.from({ length: 100 }, () => systemRandom.next())
  expect(values.every((value) => value >= 0 && value < 1)).toBe(true)
  expect(new Set(values).size).toBeGreaterThan(90)
})
