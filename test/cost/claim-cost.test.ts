import { describe, expect, test } from 'vitest'
import { StoreHarness } from '../conformance/store/store-harness.ts'
import { sqliteBackend } from '../store/sqlite-backend.ts'
import { eachLog, type StatementLog } from './statement-log.ts'

interface Cost {
  readonly looks: number
  readonly enqueue: number
  readonly claim: number
  readonly settle: number
}

describe('what a start costs', () => {
  const log = eachLog()
  const backend = sqliteBackend('SQLite in memory', ':memory:')

  /** One job of a fresh key, while so many lanes with so many jobs each wait for their own bucket and for one they share. */
  async function costBehind(lanes: number, jobs: number): Promise<Cost> {
    const harness = await StoreHarness.open(backend)
    try {
      await harness.define({
        closed: { rate: 1, per: '1d' },
        shared: { rate: 10, per: '1d' },
        ample: { rate: 100, per: '1s', concurrency: 9 },
      })
      for (let lane = 0; lane < lanes; lane++)
        await harness.add(`w${lane}-`, { limits: [`closed:${lane}`, 'shared'] }, jobs)
      while ((await harness.claim()).looks > 0);
      await harness.add('warm', { limits: ['ample:warm'] })
      await harness.start()
      return await costOfOne(harness, log())
    } finally {
      await harness.store.close()
    }
  }

  test('the statements and looks of a start are the same with 10,000 jobs waiting as with none', async () => {
    const alone = await costBehind(0, 0)
    const behindFew = await costBehind(20, 5)
    const behindMany = await costBehind(1000, 10)
    expect(behindMany).toEqual(behindFew)
    expect(behindMany.looks).toBe(1)
    for (const verb of ['enqueue', 'claim', 'settle'] as const)
      expect(behindMany[verb]).toBeLessThanOrEqual(alone[verb] + 1)
  })

  test('a claim reads few more open lanes than it has slots, however many there are', async () => {
    const harness = await StoreHarness.open(backend)
    try {
      await harness.define({ r: { rate: 1000, per: '1s' } })
      for (let lane = 0; lane < 300; lane++) await harness.add(`l${lane}-`, { limits: [`r:${lane}`] })
      log().clear()
      expect(await harness.start({ slots: 10 })).toHaveLength(10)
      const limits = log().texts.flatMap((sql) => /FROM lanes WHERE queue = .* LIMIT (\d+)/.exec(sql)?.[1] ?? [])
      expect(limits.length).toBeGreaterThan(0)
      expect(Math.max(...limits.map(Number))).toBeLessThanOrEqual(32)
    } finally {
      await harness.store.close()
    }
  })

  test('jobs are kept by their tasks only where a claimer has met some that it does not list', async () => {
    const harness = await StoreHarness.open(backend)
    try {
      const byTask = (): number => log().texts.filter((sql) => sql.includes('INDEX IF NOT EXISTS jobs_tasks')).length
      await harness.define({ r: { rate: 10, per: '1s' } })
      await harness.add('a', { limits: ['r'] }, 3)
      await harness.add('a', {}, 3)
      expect(await harness.start({ tasks: ['a1', 'a2', 'a3'] })).toHaveLength(6)
      expect(byTask()).toBe(0)
      for (const limits of [[], ['r']]) {
        await harness.add('x', { limits }, 50)
        await harness.add(`b${limits.length}`, { limits })
      }
      expect(await harness.start({ tasks: ['b0', 'b1'] })).toEqual(['b0', 'b1'])
      expect(byTask()).toBe(1)
    } finally {
      await harness.store.close()
    }
  })

  test('settlements made together are one statement', async () => {
    const harness = await StoreHarness.open(backend)
    try {
      await harness.add('a', {}, 50)
      await harness.start()
      log().clear()
      await harness.complete(...Array.from({ length: 50 }, (_, i) => `a${i + 1}`))
      expect(log().texts.filter((sql) => !sql.includes('total_changes'))).toHaveLength(1)
    } finally {
      await harness.store.close()
    }
  })

  test('jobs of one flow that are settled together move their flow once, however many they are', async () => {
    const costs: number[] = []
    for (const jobs of [2, 50]) {
      const harness = await StoreHarness.open(backend)
      try {
        const names = Array.from({ length: jobs }, (_, i) => `a${i}`)
        await harness.flow({ jobs: Object.fromEntries(['rest', ...names].map((name) => [name, {}])) })
        await harness.start()
        log().clear()
        await harness.complete(...names)
        costs.push(log().texts.filter((sql) => !sql.includes('total_changes')).length)
      } finally {
        await harness.store.close()
      }
    }
    expect(costs).toEqual([4, 4])
  })

  test('a job that waits for its time is written when its time comes, and not before', async () => {
    const harness = await StoreHarness.open(backend)
    try {
      await harness.chain('a', 'b', 'c')
      log().clear()
      await harness.start()
      await harness.retry('a')
      await harness.start()
      await harness.complete('a')
      const writes = log().texts.filter((sql) => /^UPDATE jobs SET (waits|state = \?, lane)/.test(sql))
      expect(writes).toHaveLength(2)
    } finally {
      await harness.store.close()
    }
  })

  test('fifty starts of one lane are written together', async () => {
    const harness = await StoreHarness.open(backend)
    try {
      await harness.define({ r: { rate: 100, per: '1s' } })
      await harness.add('a', { limits: ['r'] }, 50)
      log().clear()
      expect(await harness.start()).toHaveLength(50)
      const writes = log().texts.filter((sql) => /^(UPDATE|INSERT|DELETE)/.test(sql))
      expect(writes.filter((sql) => sql.startsWith('UPDATE OR FAIL jobs'))).toHaveLength(1)
      expect(writes.filter((sql) => sql.startsWith('UPDATE buckets'))).toHaveLength(1)
      expect(writes.filter((sql) => sql.startsWith('UPDATE lanes'))).toHaveLength(1)
    } finally {
      await harness.store.close()
    }
  })
})

async function costOfOne(harness: StoreHarness, log: StatementLog): Promise<Cost> {
  const count = async (work: () => Promise<unknown>): Promise<number> => {
    log.clear()
    await work()
    return log.texts.length
  }
  let looks = 0
  const enqueue = await count(() => harness.add('x', { limits: ['ample:fresh'] }))
  const claim = await count(async () => {
    const { jobs, looks: looked } = await harness.claim()
    expect(jobs.map((job) => job.task)).toEqual(['x'])
    looks = looked
  })
  const settle = await count(() => harness.complete('x'))
  return { looks, enqueue, claim, settle }
}
