import { describe, expect, test } from 'vitest'
import { sized } from '../sized.ts'
import { everyStore } from '../stores.ts'
import { simulateFlows } from './flows.ts'

const only = process.env['SLUICE_SEED']
const stores = await everyStore('simulated flows')

describe.each(stores)('flows whose processes die between any two commits on $name', (store) => {
  const seeds = only === undefined ? sized(store.name === 'sqlite' ? 10 : 3, 500) : 1
  test(`end right, repeat only what a death interrupted, and keep to their budgets`, async () => {
    const seen = { flows: 0, deaths: 0, repeated: 0 }
    for (let n = 1; n <= seeds; n++) {
      const { flows, deaths, repeated } = await simulateFlows(only === undefined ? n : Number(only), store)
      seen.flows += flows
      seen.deaths += deaths
      seen.repeated += repeated
    }
    expect(seen.flows).toBeGreaterThanOrEqual(seeds)
    if (only !== undefined) return
    expect(seen.deaths).toBeGreaterThanOrEqual(seeds)
    if (store.name === 'sqlite') expect(seen.repeated).toBeGreaterThan(0)
  })
})
