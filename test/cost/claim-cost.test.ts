import { describe, expect, test } from 'vitest'
import { World } from '../conformance/store/world.ts'
import { sqliteHarness } from '../store/sqlite-harness.ts'
import { eachLog, type StatementLog } from './statement-log.ts'

interface Cost {
  readonly looks: number
  readonly enqueue: number
  readonly claim: number
  readonly settle: number
}

describe('what a start costs', () => {
  const log = eachLog()
  const harness = sqliteHarness('SQLite in memory', ':memory:')

  /** One job of a fresh key, while so many lanes with so many jobs each wait for their own bucket and for one they share. */
  async function costBehind(lanes: number, jobs: number): Promise<Cost> {
    const world = await World.open(harness)
    try {
      await world.define({
        closed: { rate: 1, per: '1d' },
        shared: { rate: 10, per: '1d' },
        ample: { rate: 100, per: '1s', concurrency: 9 },
      })
      for (let lane = 0; lane < lanes; lane++)
        await world.add(`w${lane}-`, { limits: [`closed:${lane}`, 'shared'] }, jobs)
      while ((await world.claim()).looks > 0);
      await world.add('warm', { limits: ['ample:warm'] })
      await world.start()
      return await costOfOne(world, log())
    } finally {
      await world.store.close()
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

  test('jobs are kept by their tasks only where a claimer has met some that it does not list', async () => {
    const world = await World.open(harness)
    try {
      const byTask = (): number => log().texts.filter((sql) => sql.includes('INDEX IF NOT EXISTS jobs_tasks')).length
      await world.define({ r: { rate: 10, per: '1s' } })
      await world.add('a', { limits: ['r'] }, 3)
      await world.add('a', {}, 3)
      expect(await world.start({ tasks: ['a1', 'a2', 'a3'] })).toHaveLength(6)
      expect(byTask()).toBe(0)
      for (const limits of [[], ['r']]) {
        await world.add('x', { limits }, 50)
        await world.add(`b${limits.length}`, { limits })
      }
      expect(await world.start({ tasks: ['b0', 'b1'] })).toEqual(['b0', 'b1'])
      expect(byTask()).toBe(1)
    } finally {
      await world.store.close()
    }
  })

  test('settlements made together are one statement', async () => {
    const world = await World.open(harness)
    try {
      await world.add('a', {}, 50)
      await world.start()
      log().clear()
      await world.complete(...Array.from({ length: 50 }, (_, i) => `a${i + 1}`))
      expect(log().texts.filter((sql) => !sql.includes('total_changes'))).toHaveLength(1)
    } finally {
      await world.store.close()
    }
  })

  test('jobs of one flow that are settled together move their flow once, however many they are', async () => {
    const costs: number[] = []
    for (const jobs of [2, 50]) {
      const world = await World.open(harness)
      try {
        const names = Array.from({ length: jobs }, (_, i) => `a${i}`)
        await world.flow({ jobs: Object.fromEntries(['rest', ...names].map((name) => [name, {}])) })
        await world.start()
        log().clear()
        await world.complete(...names)
        costs.push(log().texts.filter((sql) => !sql.includes('total_changes')).length)
      } finally {
        await world.store.close()
      }
    }
    expect(costs).toEqual([4, 4])
  })

  test('a job that waits for its time is written when its time comes, and not before', async () => {
    const world = await World.open(harness)
    try {
      await world.chain('a', 'b', 'c')
      log().clear()
      await world.start()
      await world.retry('a')
      await world.start()
      await world.complete('a')
      const writes = log().texts.filter((sql) => /^UPDATE jobs SET (waits|state = \?, lane)/.test(sql))
      expect(writes).toHaveLength(2)
    } finally {
      await world.store.close()
    }
  })

  test('fifty starts of one lane are written together', async () => {
    const world = await World.open(harness)
    try {
      await world.define({ r: { rate: 100, per: '1s' } })
      await world.add('a', { limits: ['r'] }, 50)
      log().clear()
      expect(await world.start()).toHaveLength(50)
      const writes = log().texts.filter((sql) => /^(UPDATE|INSERT|DELETE)/.test(sql))
      expect(writes.filter((sql) => sql.startsWith('UPDATE jobs'))).toHaveLength(1)
      expect(writes.filter((sql) => sql.startsWith('UPDATE buckets'))).toHaveLength(1)
      expect(writes.filter((sql) => sql.startsWith('UPDATE lanes'))).toHaveLength(1)
    } finally {
      await world.store.close()
    }
  })
})

async function costOfOne(world: World, log: StatementLog): Promise<Cost> {
  const count = async (work: () => Promise<unknown>): Promise<number> => {
    log.clear()
    await work()
    return log.texts.length
  }
  let looks = 0
  const enqueue = await count(() => world.add('x', { limits: ['ample:fresh'] }))
  const claim = await count(async () => {
    const { jobs, looks: looked } = await world.claim()
    expect(jobs.map((job) => job.task)).toEqual(['x'])
    looks = looked
  })
  const settle = await count(() => world.complete('x'))
  return { looks, enqueue, claim, settle }
}
