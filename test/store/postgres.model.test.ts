import { describe, expect, test } from 'vitest'
import { checkAgainstModel } from '../conformance/store/model-check.ts'
import { postgresBackend } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { sized } from '../sized.ts'

withPostgres('the model check on PostgreSQL', () => {
  describe('the store on PostgreSQL against the executable model', () => {
    const backend = postgresBackend('PostgreSQL')

    test.each([
      ['any', sized(4, 300), 0],
      ['single', sized(2, 150), 0],
      ['shared', sized(2, 150), 0],
      ['shadow', sized(2, 150), 0],
      ['shares', sized(6, 300), 0],
      ['any', sized(2, 150), 50],
      ['shared', sized(2, 150), 50],
      ['shares', sized(4, 150), 50],
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
})
