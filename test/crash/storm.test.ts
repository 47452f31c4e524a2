import { expect, test } from 'vitest'
import { Storm } from './storm.ts'
import { canSkew } from '../skew.ts'

const SECONDS = Number(process.env['STORM_SECONDS'] ?? 14)
const SEED = Number(process.env['STORM_SEED'] ?? 11)
const MINUTES_5 = 300

test(
  'four workers on one file, killed, stopped past their leases, with clocks five minutes apart: nothing over budget, lost or doubled',
  async () => {
    const storm = new Storm({
      seconds: SECONDS,
      seed: SEED,
      skewsS: canSkew() ? [0, MINUTES_5, -MINUTES_5, 0] : [0, 0, 0, 0],
    })
    await storm.blow()
    await storm.expectKept()
    // Else it was no storm.
    expect(storm.kills).toBeGreaterThanOrEqual(SECONDS / 2)
    expect(storm.sleeps).toBeGreaterThanOrEqual(2)
    expect(storm.doubled).toBeGreaterThan(0)
  },
  (SECONDS + 90) * 1000,
)
