// Jobs of tasks that no worker lists may come in any number: those in parked lanes keep no other job waiting.
import { expect, onTestFinished, test } from 'vitest'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { job } from '../store/plain-job.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { rowSteps } from '../store/postgres-steps.ts'
import { watchedStore } from '../store/postgres-watched.ts'

const LIMIT = { name: 'r', policy: normalisePolicy({ rate: 1e6, per: '1s' }, 'r'), version: 0 }
const LANES = 50
const TASKS = ['a', 'b', 'c']

/** The row steps of taking in one unlisted job for each lane in which so many wait, and the lanes written meanwhile. */
async function costOf(waiting: number): Promise<{ readonly rows: number; readonly written: number }> {
  const watched = watchedStore(`parked_lanes_${waiting}`, 1)
  const { store, sql } = watched
  onTestFinished(() => watched.end())
  await store.open()
  const worker = await store.join(['q'], 1e15, TASKS)
  await store.define([LIMIT])
  const strangers = (each: number) => Array.from({ length: LANES * each }, (_, i) => job('x', [`r:${i % LANES}`]))
  const claim = async (): Promise<void> => {
    const queues = [{ queue: 'q', slots: 1 }]
    const { jobs, unknown } = await store.claim(() => ({ worker, leaseUs: 30_000_000, queues, tasks: TASKS }))
    expect(jobs).toEqual([])
    expect(unknown).toEqual([{ queue: 'q', task: 'x' }])
  }
  const versions = async (): Promise<Set<string>> => {
    const { rows } = await sql('SELECT id, xmin::text FROM lanes WHERE state = 4')
    return new Set(rows.map((row) => JSON.stringify(row)))
  }
  await store.enqueue(strangers(waiting))
  await claim()
  const before = await versions()
  expect(before.size).toBe(LANES)
  await store.enqueue(strangers(1))
  const statements = await rowSteps(watched, claim)
  const after = await versions()
  return {
    rows: statements.reduce((sum, { rows }) => sum + rows, 0),
    written: LANES - [...after].filter((version) => before.has(version)).length,
  }
}

withPostgres('jobs that come to parked lanes on PostgreSQL', () => {
  test('are taken in without a look at those that wait there, and without a write', async () => {
    const few = await costOf(2)
    const many = await costOf(100)
    expect(many.rows).toBeLessThan(1.1 * few.rows)
    expect([few.written, many.written]).toEqual([0, 0])
  })
})
