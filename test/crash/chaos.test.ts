import { expect, test } from 'vitest'
import { Chaos } from './chaos.ts'
import { canSkew } from '../skew.ts'

const FAULTS = Number(process.env['CHAOS_FAULTS'] ?? 24)
const SEED = Number(process.env['CHAOS_SEED'] ?? 11)
const MINUTES_5 = 300

test('four workers on one file, killed, stopped past their leases, with clocks five minutes apart: nothing over budget, lost or doubled', async () => {
  const chaos = new Chaos({
    faults: FAULTS,
    seed: SEED,
    skewsS: canSkew() ? [0, MINUTES_5, -MINUTES_5, 0] : [0, 0, 0, 0],
  })
  await chaos.run()
  await chaos.expectKept()
  // Else it was no chaos.
  expect(chaos.kills).toBeGreaterThanOrEqual(FAULTS / 3)
  expect(chaos.sleeps).toBeGreaterThanOrEqual(2)
  expect(chaos.doubled).toBeGreaterThan(0)
}, 180_000)
