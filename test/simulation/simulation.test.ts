import { describe, expect, it } from 'vitest'
import { simulate } from './simulation.ts'

const only = process.env['SLUICE_SEED']
const SEEDS = 1000
const AT_ONCE = 50

describe('a simulated fleet keeps its promises', () => {
  if (only !== undefined) {
    it(`seed ${only}`, async () => {
      expect((await simulate(Number(only))).jobs).toBeGreaterThan(0)
    })
    return
  }
  for (let first = 1; first <= SEEDS; first += AT_ONCE)
    it(`seeds ${first} to ${first + AT_ONCE - 1}`, async () => {
      let starts = 0
      for (let seed = first; seed < first + AT_ONCE; seed++) starts += (await simulate(seed)).starts
      expect(starts).toBeGreaterThan(AT_ONCE)
    })
})
