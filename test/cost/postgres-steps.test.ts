// A batch on PostgreSQL takes as many steps for each of its jobs as a small one does: no statement joins it to itself.
import { uuidv7 } from 'uuidv7'
import { expect, onTestFinished, test } from 'vitest'
import type { NewJob } from '../../src/jobs/job.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { rowSteps } from '../store/postgres-steps.ts'
import { watchedStore } from '../store/postgres-watched.ts'

/** Jobs of a batch, each with a key of its own. */
const BATCH = 1000
/** Rows that all nodes of one plan may give or drop for each job. One scan of the batch for each job would be `BATCH`. */
const STEPS_A_JOB = 25
const LIMIT = { name: 'r', policy: normalisePolicy({ rate: 100, per: '1h' }, 'r'), version: 0 }
const ERROR = { code: 'x', message: 'x' }

function newJob(key: string, priority: number): NewJob {
  const terms = { givenId: true, pending: false, leaseUs: null, timeoutUs: null, deadLetter: false }
  const none = { runAtMs: null, expiresAtMs: null, unique: null, extra: null }
  const uses = [{ limit: 'r', key, weight: 1 }]
  return { id: uuidv7(), task: 't', queue: 'q', priority, input: '[]', uses, maxAttempts: 5, terms, ...none }
}

withPostgres('a batch of jobs with a key each', () => {
  test('takes some steps for each job through all its life, in every statement', async () => {
    const watched = watchedStore('steps', 1)
    const { store, sql } = watched
    onTestFinished(() => watched.end())
    await store.open()
    const worker = await store.join(['q'], 1e12)
    await store.define([LIMIT])
    await sql('ANALYZE')

    let running: readonly { readonly seq: number; readonly attempt: number }[] = []
    async function claim(): Promise<void> {
      const queues = [{ queue: 'q', slots: BATCH }]
      running = (await store.claim(() => ({ worker, leaseUs: 30_000_000, queues }))).jobs
      expect(running).toHaveLength(BATCH)
    }
    const enqueue = (priority: number): Promise<unknown> =>
      store.enqueue(Array.from({ length: BATCH }, (_, i) => newJob(`k${i}`, priority)))
    const parts: readonly (readonly [string, () => Promise<unknown>])[] = [
      ['an enqueue', () => enqueue(0)],
      ['an enqueue of jobs that go first', () => enqueue(5)],
      ['a claim that takes them in', claim],
      [
        'retries',
        () =>
          Promise.all(running.map((run) => store.settle(worker, { ...run, kind: 'retry', delayUs: 0, error: ERROR }))),
      ],
      ['a claim that promotes', claim],
      ['a recovery', () => store.recover()],
      ['a claim after it', claim],
      [
        'completions',
        () => Promise.all(running.map((run) => store.settle(worker, { ...run, kind: 'complete', result: null }))),
      ],
      ['a claim of what is left', claim],
      [
        'failures',
        () => Promise.all(running.map((run) => store.settle(worker, { ...run, kind: 'discard', error: ERROR }))),
      ],
      ['a pruning', () => store.prune(BATCH)],
    ]
    // The second time, the lanes and buckets are there.
    for (const time of ['first', 'second']) {
      for (const [name, work] of parts) {
        if (name === 'a recovery') await sql('UPDATE jobs SET due = 0 WHERE state = 2')
        if (name === 'a pruning') await sql('UPDATE jobs SET due = 0 WHERE state IN (3, 6, 7)')
        const statements = await rowSteps(watched, async () => void (await work()))
        expect(statements.length).toBeGreaterThan(0)
        expect(statements[0]?.rows, `${name}, the ${time} time: ${statements[0]?.query}`).toBeLessThan(
          STEPS_A_JOB * BATCH,
        )
      }
    }
  }, 60_000)
})
