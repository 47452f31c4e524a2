import { describe, expect, test } from 'vitest'
import { checkAgainstModel } from '../conformance/store/model-check.ts'
import { sqliteBackend } from './sqlite-backend.ts'

/** Set to run further seeds than those of every run. */
const MORE = Number(process.env['SLUICE_MODEL_SEEDS'] ?? 0)

describe('the store against the executable model', () => {
  const backend = sqliteBackend('SQLite in memory', ':memory:')

  test.each([
    ['any', 300],
    ['single', 150],
    ['shared', 150],
  ] as const)(
    '%s histories',
    async (kind, seeds) => {
      const { starts, looks, faults } = await checkAgainstModel(backend, { kind, from: 1, seeds: seeds + MORE })
      expect(faults).toEqual([])
      expect(starts).toBeGreaterThan(10 * seeds)
      expect(looks / starts).toBeLessThan(4)
    },
    600_000,
  )
})
