import { describe, expect, test } from 'vitest'
import { checkAgainstModel } from '../conformance/store/model-check.ts'
import { sqliteBackend } from './sqlite-backend.ts'
import { sized } from '../sized.ts'

describe('the store against the executable model', () => {
  const backend = sqliteBackend('SQLite in memory', ':memory:')

  test.each([
    ['any', sized(100, 3000)],
    ['single', sized(50, 1500)],
    ['shared', sized(50, 1500)],
  ] as const)(
    '%s histories',
    async (kind, seeds) => {
      const { starts, looks, faults } = await checkAgainstModel(backend, { kind, from: 1, seeds })
      expect(faults).toEqual([])
      expect(starts).toBeGreaterThan(10 * seeds)
      expect(looks / starts).toBeLessThan(4)
    },
    1_800_000,
  )
})
