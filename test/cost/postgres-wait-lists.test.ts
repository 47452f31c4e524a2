// Some wait lists need many lanes in claim after claim. A claim reads as many of each as the last ones needed.
import { Client } from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Duration, Policy } from '../../src/exports/index.ts'
import { seededRandom } from '../../src/base/random.ts'
import { StoreHarness } from '../conformance/store/store-harness.ts'
import { postgresBackend } from '../store/postgres-backend.ts'
import { withPostgres } from '../store/postgres-server.ts'

const JOBS = 4000
const CLAIMS = 60
const strict = (every: Duration): Policy => ({ rate: 1, per: every, burst: 1 })

/** The reads of claims under strict limits within a strict limit for all, and the lanes that each read. */
async function reads(): Promise<{ readonly again: number; readonly lanes: number; readonly starts: number }> {
  const harness = await StoreHarness.open(postgresBackend('PostgreSQL'))
  const random = seededRandom(5)
  const below = (n: number): number => Math.floor(random.next() * n)
  await harness.define({ all: strict('5ms'), account: strict('77ms'), model: strict('250ms'), plan: strict('200ms') })
  const jobs = Array.from({ length: JOBS }, (_, i) =>
    harness.job(`j${i}`, {
      limits: ['all', `account:${below(16)}`, `model:${below(60)}`, `plan:${below(50)}`],
    }),
  )
  await harness.store.enqueue(jobs)
  while ((await harness.claim({ slots: 100 })).looks > 0);
  const lanes: number[] = []
  const query = vi.spyOn(Client.prototype, 'query')
  onTestFinished(() => query.mockRestore())
  let starts = 0
  for (let n = 1; n <= CLAIMS; n++) {
    harness.at(n * 50)
    starts += (await harness.claim({ slots: 100, ahead: 50, aheadMs: 50 })).jobs.length
  }
  for (const { value } of query.mock.results) {
    const answer: unknown = await value
    if (!Array.isArray(answer)) continue
    const cell: unknown = (answer as { rows: unknown[][] }[]).at(-1)?.rows[0]?.[0]
    if (typeof cell === 'string' && cell.includes('"lineLanes"'))
      lanes.push((JSON.parse(cell) as { lanes: unknown[] | null }).lanes?.length ?? 0)
  }
  return { again: lanes.length - CLAIMS, lanes: lanes.reduce((sum, each) => sum + each, 0) / lanes.length, starts }
}

withPostgres('wait lists of strict limits within strict limits on PostgreSQL', () => {
  test('are mostly read once a claim, and not whole', async () => {
    const { again, lanes, starts } = await reads()
    expect(starts).toBeGreaterThan(400)
    expect(again).toBeLessThan(CLAIMS / 2)
    expect(lanes).toBeLessThan(0.6 * JOBS)
  })
})
