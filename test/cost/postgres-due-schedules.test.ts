// Claims fire due schedules: the queries of one do not grow with their number, since other changes of schedules wait.
import { expect, onTestFinished, test } from 'vitest'
import type { NewSchedule } from '../../src/jobs/schedule.ts'
import { withPostgres } from '../store/postgres-server.ts'
import { watchedStore } from '../store/postgres-watched.ts'

const EACH = { immediately: true, untilMs: null, maxRuns: null, overlap: 'skip', onMissed: 'skip' } as const

function tick(n: number): NewSchedule {
  const job = { task: `t${n}`, queue: 'q', priority: 0, input: 'null', uses: [], maxAttempts: 1, extra: null }
  return { name: `s${n}`, recurrence: { kind: 'every', everyUs: 3_600_000_000 }, ...EACH, job }
}

/** The queries of a claim in which so many schedules fire. */
async function queriesOf(due: number): Promise<number> {
  const watched = watchedStore(`due_schedules_${due}`, 1)
  const { store, pool } = watched
  onTestFinished(() => watched.end())
  await store.open()
  const worker = await store.join(['q'], 1e12)
  for (let n = 0; n < due; n++) await store.schedule(tick(n))
  pool.queries.length = 0
  const request = { worker, leaseUs: 30_000_000, queues: [{ queue: 'q', slots: 500 }] }
  const { schedules, jobs } = await store.claim(() => request)
  const queries = pool.queries.length
  expect(schedules.filter(({ kind }) => kind === 'fired')).toHaveLength(due)
  expect(jobs.map(({ task }) => task).sort()).toEqual(Array.from({ length: due }, (_, n) => `t${n}`).sort())
  return queries
}

withPostgres('a claim in which schedules fire on PostgreSQL', () => {
  test('asks as much for a hundred as for a few', async () => {
    const few = await queriesOf(5)
    expect(await queriesOf(100)).toBeLessThan(few + 10)
  })
})
