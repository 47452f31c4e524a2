import { describe, expect, test } from 'vitest'
import { checkAgainstModel } from '../conformance/store/model-check.ts'
import { postgresBackend } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'

/** Set to run further seeds than those of every run. */
const MORE = Number(process.env['SLUICE_MODEL_SEEDS'] ?? 0)

withPostgres('the model check on PostgreSQL', () => {
  describe('the store on PostgreSQL against the executable model', () => {
    const backend = postgresBackend('PostgreSQL')

    test.each([
      ['any', 20],
      ['single', 10],
      ['shared', 10],
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
})
