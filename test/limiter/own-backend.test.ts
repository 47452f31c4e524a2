// The backend that docs/guides/limiter.md shows passes the suite of our own backends.
import { describe, expect, it } from 'vitest'
import { valuesInSqlite } from '../../examples/own-backend/values-in-sqlite.ts'
import { createLimiter, limit, valueBackend, type ValueStore } from '../../src/exports/limiter.ts'
import { limiterSuite } from '../../src/exports/testing/limiter-suite.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'

limiterSuite(
  'values in SQLite',
  async () => {
    const clock = createManualClock()
    const backend = valuesInSqlite(':memory:', () => Math.round(clock.now() * 1000))
    return { backend, advance: (ms) => clock.advance(ms), close: () => backend.close() }
  },
  { describe, it },
)

describe('values in a place of your own', () => {
  it('are written only where they change, and refused without an update', async () => {
    const values = new Map<string, string>()
    const writes: string[][] = []
    const store: ValueStore = {
      isLocal: true,
      update: async (keys, decide) => {
        const decided = decide(
          keys.map((key) => values.get(key) ?? null),
          1_000_000,
        )
        writes.push(keys.filter((_, i) => decided[i] !== null))
        for (const [i, value] of decided.entries()) if (value?.text) values.set(keys[i] ?? '', value.text)
      },
    }
    const crm = limit('crm', '1/s burst 1')
    const limiter = createLimiter({ backend: valueBackend(store), limits: [crm] })
    await limiter.acquire([crm.key('acme')])
    await expect(limiter.acquire([crm.key('acme')], { wait: false })).rejects.toThrow(/acme/)
    await limiter.inspect(crm.key('birch'))
    await limiter.close()
    expect(writes).toEqual([['limits'], ['b:crm:acme'], [], []])
    expect(() => valueBackend({} as ValueStore)).toThrow(/update/)
  })

  it('an error of the place counts as unreachable, and gives nothing away', async () => {
    const crm = limit('crm', '1/s burst 1')
    const store: ValueStore = { isLocal: true, update: () => Promise.reject(new Error('the disk is full')) }
    const limiter = createLimiter({ backend: valueBackend(store), limits: [crm] })
    await expect(limiter.acquire([crm], { wait: false })).rejects.toThrow()
    await limiter.close()
  })
})
