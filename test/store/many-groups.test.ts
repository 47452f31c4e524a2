// Wait lists with many groups of lanes, by the other buckets that these need. Each store reads such lists in its own way.
import { describe, expect, test } from 'vitest'
import { seededRandom } from '../../src/base/random.ts'
import type { StoreBackend } from '../conformance/store/backend.ts'
import { StoreHarness } from '../conformance/store/store-harness.ts'
import { postgresBackend } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { sqliteBackend } from './sqlite-backend.ts'

const JOBS = 500
const UNTIL_MS = 3000
const STEP_MS = 10

/** The starts of a history in which three keyed limits and one for all of them refuse most jobs. */
async function startsOn(backend: StoreBackend, seed: number, aheadMs: number): Promise<string[]> {
  const harness = await StoreHarness.open(backend)
  const random = seededRandom(seed)
  const below = (n: number): number => Math.floor(random.next() * n)
  await harness.define({
    all: { rate: 1, per: '15ms', burst: 2 },
    model: { rate: 1, per: '200ms', burst: 1 + below(3) },
    region: { rate: 1, per: '150ms', burst: 1 + below(3) },
    plan: { rate: 1, per: '100ms', burst: 1 + below(3) },
  })
  const jobs = Array.from({ length: JOBS }, (_, i) =>
    harness.job(`j${i}`, {
      priority: below(10) === 0 ? 1 : 0,
      limits: ['all', `model:${below(9)}`, `region:${below(8)}`, `plan:${below(7)}`],
    }),
  )
  for (const [i, job] of jobs.entries()) {
    harness.at(i / 100)
    // Lanes take their turns when a claim takes them in.
    await harness.store.enqueue([job])
    await harness.claim({ slots: 0 })
  }
  const starts: string[] = []
  for (let ms = 10; ms <= UNTIL_MS; ms += STEP_MS) {
    harness.at(ms)
    for (let more = true; more;) {
      const claim = await harness.claim({ slots: 8, ahead: 4, aheadMs })
      for (const { task, startedUs } of claim.jobs) starts.push(`${task} at ${harness.ms(startedUs)} ms`)
      more = claim.jobs.length > 0 || (claim.nextWakeUs !== null && claim.nextWakeUs <= claim.nowUs)
    }
  }
  return starts
}

withPostgres('many groups of a wait list', () => {
  describe('lanes of a wait list with many groups', () => {
    const [sqlite, postgres] = [sqliteBackend('SQLite', ':memory:'), postgresBackend('PostgreSQL')]

    test.each([
      [1, 0],
      [2, 0],
      [3, 20],
      [4, 20],
    ])(
      'start in one order on both stores, history %i, with starts granted %i ms ahead',
      async (seed, aheadMs) => {
        const starts = await startsOn(sqlite, seed, aheadMs)
        expect(starts.length).toBeGreaterThan(100)
        expect(await startsOn(postgres, seed, aheadMs)).toEqual(starts)
      },
      300_000,
    )
  })
})
