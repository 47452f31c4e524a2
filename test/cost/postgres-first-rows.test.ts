// The first rows in an order are read in that order, however few rows there were when a statement was planned.
import { uuidv7 } from 'uuidv7'
import { expect, onTestFinished, test } from 'vitest'
import type { NewJob } from '../../src/jobs/job.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { rowSteps } from '../store/postgres-steps.ts'
import { watchedStore } from '../store/postgres-watched.ts'

const LANES = 400
const JOBS_A_LANE = 20
const SLOTS = 20
/** Rows that all nodes of one plan may give or drop. A read of all jobs for one lane would be the number of jobs. */
const STEPS = LANES * 10
const LIMIT = { name: 'r', policy: normalisePolicy({ rate: 1e6, per: '1s' }, 'r'), version: 0 }

function newJob(key: string | null): NewJob {
  const terms = { givenId: true, pending: false, leaseUs: null, timeoutUs: null, deadLetter: false }
  const none = { runAtMs: null, expiresAtMs: null, unique: null, extra: null }
  const uses = key === null ? [] : [{ limit: 'r', key, weight: 1 }]
  return { id: uuidv7(), task: 't', queue: 'q', priority: 0, input: '[]', uses, maxAttempts: 5, terms, ...none }
}

withPostgres('a claim among many waiting jobs on PostgreSQL', () => {
  const cases = [0, 20, 110, 170, 220, 300].flatMap((few) => [false, true].map((analyzed) => [few, analyzed] as const))
  test.each(cases)(
    'reads few rows, if its statements were planned when %i waited, analyzed: %s',
    async (few, analyzed) => {
      const watched = watchedStore(`first_rows_${few}_${analyzed}`, 1)
      const { store, sql } = watched
      onTestFinished(() => watched.end())
      await store.open()
      await sql('ALTER TABLE jobs SET (autovacuum_enabled = false)')
      await sql('ALTER TABLE lanes SET (autovacuum_enabled = false)')
      await sql('ALTER TABLE buckets SET (autovacuum_enabled = false)')
      const worker = await store.join(['q'], 1e12)
      await store.define([LIMIT])
      const claim = async (): Promise<number> => {
        const queues = [{ queue: 'q', slots: SLOTS }]
        const { jobs } = await store.claim(() => ({ worker, leaseUs: 30_000_000, queues, tasks: ['t'] }))
        await Promise.all(jobs.map((run) => store.settle(worker, { ...run, kind: 'complete', result: null })))
        return jobs.length
      }
      const others = async (n: number): Promise<void> => {
        const unique = {
          key: `u${n}`,
          onConflict: 'ignore',
          withinUs: null,
          states: ['scheduled', 'available'],
        } as const
        await store.enqueue([{ ...newJob(null), unique }])
        await store.promote(100)
        await store.recover()
      }
      for (let i = 0; i < few; i++) await store.enqueue([newJob(`k${i}`)])
      await others(0)
      if (analyzed) await sql('ANALYZE jobs, lanes, buckets')
      while ((await claim()) > 0);
      for (let n = 0; n < JOBS_A_LANE; n++)
        await store.enqueue(Array.from({ length: LANES }, (_, i) => newJob(i % 100 === 0 ? null : `k${i}`)))
      const most = (found: Awaited<ReturnType<typeof rowSteps>>, bound: number): void =>
        expect(found.filter(({ rows }) => rows >= bound)).toEqual([])
      most(await rowSteps(watched, () => others(1)), 100)
      for (let n = 0; n < 3; n++) {
        const statements = await rowSteps(watched, async () => expect(await claim()).toBe(SLOTS))
        most(statements, n === 0 ? 10 * STEPS : STEPS)
      }
    },
    60_000,
  )
})
