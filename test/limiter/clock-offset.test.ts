import { describe, expect, it } from 'vitest'
import { ClockOffset } from '../../src/limiter/ledger/clock-offset.ts'

const AHEAD_US = 7_000_000

describe('the offset of a server’s clock', () => {
  it('is known to half of the fastest round trip, however slow the others were', () => {
    const offset = new ClockOffset()
    const waysUs = [
      [90_000, 150_000],
      [200, 300],
      [40_000, 100],
      [100, 250_000],
    ] as const
    let sentUs = 1_000_000
    for (const [thereUs, backUs] of waysUs) {
      offset.note(sentUs, sentUs + thereUs + backUs, sentUs + thereUs + AHEAD_US)
      sentUs += 500_000
    }
    expect(offset.uncertainUs).toBeLessThan(2000)
    expect(Math.abs(offset.guessUs - AHEAD_US)).toBeLessThan(500)
    expect(offset.leastUs).toBeLessThanOrEqual(AHEAD_US)
  })

  it('begins again when the server’s clock was set', () => {
    const offset = new ClockOffset()
    offset.note(0, 1000, AHEAD_US + 500)
    for (const setUs of [60_000_000, -60_000_000]) {
      offset.note(2_000_000, 2_001_000, 2_000_500 + AHEAD_US + setUs)
      expect(offset.guessUs).toBe(AHEAD_US + setUs)
    }
  })

  it('grows less certain with time', () => {
    const offset = new ClockOffset()
    offset.note(0, 100, 50)
    offset.note(10_000_000, 10_500_000, 10_200_000)
    expect(offset.uncertainUs).toBeCloseTo(100 + 2 * 5250, -1)
  })
})
