// Claims end jobs that are too late: the queries of one do not grow with their number, since every other claim waits.
import { expect, onTestFinished, test } from 'vitest'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { job } from '../store/plain-job.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { watchedStore } from '../store/postgres-watched.ts'

const LIMIT = { name: 'r', policy: normalisePolicy({ rate: 1, per: '1h' }, 'r'), version: 0 }

/** The queries of a claim that ends so many jobs of as many keys, each behind one that has started. */
async function queriesOf(late: number): Promise<number> {
  const watched = watchedStore(`late_jobs_${late}`, 1)
  const { store, pool } = watched
  onTestFinished(() => watched.end())
  await store.open()
  const worker = await store.join(['q'], 1e12)
  await store.define([LIMIT])
  const claim = (): ReturnType<typeof store.claim> =>
    store.claim(() => ({ worker, leaseUs: 30_000_000, queues: [{ queue: 'q', slots: 500 }] }))
  const keys = Array.from({ length: late }, (_, n) => `r:${n}`)
  await store.enqueue(keys.map((key) => job('first', [key])))
  while ((await claim()).jobs.length > 0);
  await store.enqueue(keys.map((key) => job('late', [key], { expiresAtMs: Date.now() - 1000 })))
  pool.queries.length = 0
  const { rejected } = await claim()
  expect(rejected.map(({ task, reason }) => `${task} ${reason}`)).toEqual(keys.map(() => 'late expired'))
  return pool.queries.length
}

withPostgres('a claim that ends late jobs on PostgreSQL', () => {
  test('asks as much for a hundred as for a few', async () => {
    const few = await queriesOf(5)
    expect(await queriesOf(100)).toBeLessThan(few + 10)
  })
})
