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

/** The answers of looks. */
interface Look {
  readonly lanes: readonly unknown[] | null
  readonly deputies: readonly unknown[] | null
  readonly lineBuckets: readonly number[]
}

/** Three keyed limits below one for all: how many keys each has, and how often one of them starts. */
type Keyed = Readonly<Record<'account' | 'model' | 'plan', readonly [keys: number, every: Duration]>>

/** The looks of claims under strict limits within a strict limit for all, whose keys are drawn. */
async function looksOf(limits: Keyed): Promise<{ readonly looks: readonly Look[]; readonly starts: number }> {
  const harness = await StoreHarness.open(postgresBackend('PostgreSQL'))
  const random = seededRandom(5)
  const below = (n: number): number => Math.floor(random.next() * n)
  const keyed = Object.entries(limits)
  const policies = keyed.map(([name, [, every]]) => [name, strict(every)] as const)
  await harness.define({ all: strict('5ms'), ...Object.fromEntries(policies) })
  const jobs = Array.from({ length: JOBS }, (_, i) =>
    harness.job(`j${i}`, {
      limits: ['all', ...keyed.map(([name, [keys]]) => `${name}:${below(keys)}`)],
    }),
  )
  await harness.store.enqueue(jobs)
  while ((await harness.claim({ slots: 100 })).looks > 0);
  const looks: Look[] = []
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
    if (typeof cell === 'string' && cell.includes('"lineLanes"')) looks.push(JSON.parse(cell) as Look)
  }
  return { looks, starts }
}

function mean(looks: readonly Look[], of: (look: Look) => number): number {
  return looks.reduce((sum, look) => sum + of(look), 0) / looks.length
}

withPostgres('wait lists of strict limits within strict limits on PostgreSQL', () => {
  test('are mostly read once a claim, and not whole', async () => {
    const { looks, starts } = await looksOf({ account: [16, '77ms'], model: [60, '250ms'], plan: [50, '200ms'] })
    expect(starts).toBeGreaterThan(400)
    expect(looks.length - CLAIMS).toBeLessThan(CLAIMS / 2)
    expect(mean(looks, ({ lanes }) => lanes?.length ?? 0)).toBeLessThan(0.6 * JOBS)
  })

  test('are read without the lists in which their deputies wait', async () => {
    const { looks, starts } = await looksOf({ account: [20, '50ms'], model: [800, '4s'], plan: [2000, '10s'] })
    expect(starts).toBeGreaterThan(400)
    const last = looks.slice(-10)
    expect(mean(last, ({ deputies }) => deputies?.length ?? 0)).toBeGreaterThan(5)
    // With the lists of all that their deputies need it is 390.
    expect(mean(last, ({ lineBuckets }) => new Set(lineBuckets).size)).toBeLessThan(280)
  })
})
