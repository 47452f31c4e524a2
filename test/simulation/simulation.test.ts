import { describe, expect, it } from 'vitest'
import { simulate } from './simulation.ts'
import { sized } from '../sized.ts'

const only = process.env['SLUICE_SEED']
const SEEDS = sized(200, 10_000)
const AT_ONCE = 50

describe('a simulated fleet keeps its promises', () => {
  if (only !== undefined) {
    it(`seed ${only}`, async () => {
      expect((await simulate(Number(only))).jobs).toBeGreaterThan(0)
    })
    it(`seed ${only}, with starts that are granted ahead`, async () => {
      expect((await simulate(Number(only), undefined, true)).jobs).toBeGreaterThan(0)
    })
    return
  }
  for (let first = 1; first <= SEEDS; first += AT_ONCE)
    it(`seeds ${first} to ${first + AT_ONCE - 1}`, async () => {
      const seen = { starts: 0, changes: 0, occurrences: 0 }
      for (let seed = first; seed < first + AT_ONCE; seed++) {
        const { starts, changes, occurrences } = await simulate(seed)
        seen.starts += starts
        seen.changes += changes
        seen.occurrences += occurrences
      }
      for (const count of Object.values(seen)) expect(count).toBeGreaterThan(AT_ONCE / 2)
    })
  for (let first = 1; first <= SEEDS / 4; first += AT_ONCE)
    it(`seeds ${first} to ${first + AT_ONCE - 1}, with starts that are granted ahead`, async () => {
      const seen = { ahead: 0, unbegun: 0 }
      for (let seed = first; seed < first + AT_ONCE; seed++) {
        const { ahead, unbegun } = await simulate(seed, undefined, true)
        seen.ahead += ahead
        seen.unbegun += unbegun
      }
      for (const count of Object.values(seen)) expect(count).toBeGreaterThan(5)
    })
})
