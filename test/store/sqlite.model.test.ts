import { describe, expect, test } from 'vitest'
import { checkAgainstModel } from '../conformance/store/model-check.ts'
import { sqliteBackend } from './sqlite-backend.ts'
import { sized } from '../sized.ts'

describe('the store against the executable model', () => {
  const backend = sqliteBackend('SQLite in memory', ':memory:')

  test.each([
    ['any', sized(60, 3000), 0],
    ['single', sized(30, 1500), 0],
    ['shared', sized(30, 1500), 0],
    ['shadow', sized(20, 1000), 0],
    ['shares', sized(60, 3000), 0],
    ['any', sized(20, 1500), 20],
    ['single', sized(20, 1500), 20],
    ['shared', sized(20, 1500), 20],
    ['shares', sized(40, 1500), 20],
  ] as const)(
    '%s histories, of %i, with starts granted %i ms ahead',
    async (kind, seeds, aheadMs) => {
      const { starts, looks, faults } = await checkAgainstModel(backend, { kind, from: 1, seeds, aheadMs })
      expect(faults).toEqual([])
      expect(starts).toBeGreaterThan(10 * seeds)
      expect(looks / starts).toBeLessThan(4)
    },
    1_800_000,
  )
})
