// A worker may serve many queues: each of them is looked at once by a claim, and not once for each other.
import { expect, onTestFinished, test } from 'vitest'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { job } from '../store/plain-job.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { rowSteps } from '../store/postgres-steps.ts'
import { watchedStore } from '../store/postgres-watched.ts'

const LIMIT = { name: 'r', policy: normalisePolicy({ rate: 1e6, per: '1s' }, 'r'), version: 0 }

/** The rows that all nodes of all plans gave or dropped for one claim of so many queues, of which one has a job. */
async function rowsOf(queues: number): Promise<number> {
  const watched = watchedStore(`many_queues_${queues}`, 1)
  const { store } = watched
  onTestFinished(() => watched.end())
  await store.open()
  const names = Array.from({ length: queues }, (_, i) => `q${i}`)
  const worker = await store.join(names, 1e12)
  await store.define([LIMIT])
  const claim = async (): Promise<number> => {
    const asked = names.map((queue) => ({ queue, slots: 1 }))
    const { jobs } = await store.claim(() => ({ worker, leaseUs: 30_000_000, queues: asked, tasks: ['t'] }))
    return jobs.length
  }
  await claim()
  await store.enqueue([job('t', ['r:k'], { queue: 'q0' })])
  const statements = await rowSteps(watched, async () => expect(await claim()).toBe(1))
  return statements.reduce((sum, { rows }) => sum + rows, 0)
}

withPostgres('a claim of many queues on PostgreSQL', () => {
  test('reads about as many rows more as there are more queues', async () => {
    const few = await rowsOf(20)
    expect(await rowsOf(200)).toBeLessThan(20 * few)
  })
})
