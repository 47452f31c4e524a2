import { describe, expect, test } from 'vitest'
import { checkAgainstModel } from '../conformance/store/model-check.ts'
import { postgresBackend } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { sized } from '../sized.ts'

withPostgres('the model check on PostgreSQL', () => {
  describe('the store on PostgreSQL against the executable model', () => {
    const backend = postgresBackend('PostgreSQL')

    test.each([
      ['any', sized(8, 300)],
      ['single', sized(4, 150)],
      ['shared', sized(4, 150)],
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
})
