import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { type Ageing, changePace, levelOf, NO_AGEING, stepsAt, stepsOf } from '../../src/policy/admission/ageing.ts'
import { EPOCH_US, SECOND } from './histories.ts'

const priorities = fc.integer({ min: -100, max: 100 })
const times = fc.integer({ min: 0, max: 1_000_000_000 })

describe('ageing', () => {
  test('orders two jobs as their priorities stand after any wait, whenever they are looked at', () => {
    fc.assert(
      fc.property(priorities, times, priorities, times, fc.integer({ min: 1, max: 1e9 }), (p, a, q, b, everyUs) => {
        const ageing: Ageing = changePace(NO_AGEING, everyUs, EPOCH_US)
        const level = (priority: number, us: number): number => levelOf(priority, stepsAt(ageing, EPOCH_US + us), null)
        // Steps gained by an instant far ahead, at which both have waited.
        const lookedUs = 2_000_000_000
        const gained = (us: number): number => stepsAt(ageing, EPOCH_US + lookedUs) - stepsAt(ageing, EPOCH_US + us)
        expect(Math.sign(level(p, a) - level(q, b))).toBe(Math.sign(p + gained(a) - (q + gained(b))))
      }),
    )
  })

  test('another pace leaves those who wait as far ahead as they have come', () => {
    const fast = changePace(NO_AGEING, SECOND, EPOCH_US)
    const slow = changePace(fast, 60 * SECOND, EPOCH_US + 10 * SECOND)
    const off = changePace(slow, null, EPOCH_US + 130 * SECOND)
    expect(stepsAt(fast, EPOCH_US + 9.5 * SECOND)).toBe(9)
    expect(stepsAt(slow, EPOCH_US + 10 * SECOND)).toBe(10)
    expect(stepsAt(slow, EPOCH_US + 70 * SECOND)).toBe(11)
    expect(stepsAt(off, EPOCH_US + 900 * SECOND)).toBe(12)
  })

  test('a clock that went back counts no step less than there were', () => {
    const slow = changePace({ everyUs: SECOND, sinceUs: EPOCH_US, steps: 5 }, 60 * SECOND, EPOCH_US + 3 * SECOND)
    expect(stepsAt(slow, EPOCH_US - 900 * SECOND)).toBe(8)
  })

  test('lifts no job past those that may use a reserve that it may not, and keeps the steps readable', () => {
    fc.assert(
      fc.property(priorities, priorities, fc.nat({ max: 1e9 }), fc.nat({ max: 1e9 }), priorities, (p, q, a, b, at) => {
        const reached = (priority: number): number | null => (priority >= at ? at : null)
        const [one, other] = [levelOf(p, a, reached(p)), levelOf(q, b, reached(q))]
        if (p >= at && q < at) expect(one).toBeGreaterThan(other)
        expect(Number.isSafeInteger(one)).toBe(true)
        expect(stepsOf(one, p)).toBe(a)
      }),
    )
  })
})
