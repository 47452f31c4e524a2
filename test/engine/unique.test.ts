import { describe, expect, test } from 'vitest'
import { input, limit, type Sluice, task, type Task } from '../../src/exports/index.ts'
import type { ManualClock } from '../../src/exports/testing.ts'
import { createEngineHarness } from './engine-harness.ts'

interface Item {
  readonly name: string
}

async function harness(): Promise<{
  clock: ManualClock
  engine: Sluice
  work: Task<Item, Item, void>
  ran: string[]
}> {
  const { clock, start } = createEngineHarness()
  const ran: string[] = []
  const work = task('work.item', input<Item>(), {
    limits: [limit('gate', { rate: 1, per: '10s' })],
    run: ({ name }) => (ran.push(name), clock.sleep('1s')),
  })
  const engine = await start({ tasks: [work] })
  await work.enqueue({ name: 'warm-up' })
  await clock.advance('2s')
  ran.length = 0
  return { clock, engine, work, ran }
}

describe('a second job with the same unique key', () => {
  test('is ignored by default: the earlier one is returned', async () => {
    const { clock, work, ran } = await harness()
    const first = await work.enqueue({ name: 'first' }, { unique: 'key' })
    const second = await work.enqueue({ name: 'second' }, { unique: 'key' })
    expect(first.duplicate).toBe(false)
    expect(second).toMatchObject({ id: first.id, duplicate: true })
    await clock.advance('1m')
    expect(ran).toEqual(['first'])
  })

  test('is rejected on demand, with the id of the earlier one', async () => {
    const { clock, work, ran } = await harness()
    const unique = { key: 'key', onConflict: 'reject' } as const
    const first = await work.enqueue({ name: 'first' }, { unique })
    const second = work.enqueue({ name: 'second' }, { unique })
    await expect(second).rejects.toMatchObject({ code: 'unique.conflict' })
    await expect(second).rejects.toThrow(first.id)
    await clock.advance('1m')
    expect(ran).toEqual(['first'])
  })

  test('updates the earlier one: it keeps id and place and runs the latest input', async () => {
    const { clock, work, ran } = await harness()
    const unique = { key: 'key', onConflict: 'update' } as const
    const first = await work.enqueue({ name: 'first' }, { unique })
    await work.enqueue({ name: 'behind' })
    const second = await work.enqueue({ name: 'second' }, { unique })
    expect(second).toMatchObject({ id: first.id, duplicate: true })
    await clock.advance('1m')
    expect(ran).toEqual(['second', 'behind'])
  })

  test('replaces the earlier one: that is cancelled, the new one has a new id', async () => {
    const { clock, engine, work, ran } = await harness()
    const unique = { key: 'key', onConflict: 'replace' } as const
    const first = await work.enqueue({ name: 'first' }, { unique })
    const second = await work.enqueue({ name: 'second' }, { unique })
    expect(second.id).not.toBe(first.id)
    expect(second.duplicate).toBe(false)
    expect(await engine.jobs.get(first.id)).toMatchObject({ state: 'cancelled' })
    await expect(first.result()).rejects.toMatchObject({ code: 'job.cancelled' })
    await clock.advance('1m')
    expect(ran).toEqual(['second'])
  })

  test.each(['update', 'replace'] as const)(
    'leaves an active one alone (%s): a new job is enqueued',
    async (onConflict) => {
      const { clock, engine, work, ran } = await harness()
      const unique = { key: 'key', onConflict }
      const first = await work.enqueue({ name: 'first' }, { unique })
      await clock.advance('8500ms')
      expect(await engine.jobs.get(first.id)).toMatchObject({ state: 'active' })
      const second = await work.enqueue({ name: 'second' }, { unique })
      expect(second).toMatchObject({ duplicate: false })
      expect(second.id).not.toBe(first.id)
      await clock.advance('1m')
      expect(ran).toEqual(['first', 'second'])
      expect(await engine.jobs.get(first.id)).toMatchObject({ state: 'completed', input: { name: 'first' } })
    },
  )

  test('is a new one when the earlier has ended', async () => {
    const { clock, work, ran } = await harness()
    await work.enqueue({ name: 'first' }, { unique: 'key' })
    await clock.advance('1m')
    const second = await work.enqueue({ name: 'second' }, { unique: 'key' })
    expect(second.duplicate).toBe(false)
    await clock.advance('1m')
    expect(ran).toEqual(['first', 'second'])
  })

  test('is a duplicate within the time that the key is held, ended or not, and no longer', async () => {
    const { clock, work, ran } = await harness()
    const unique = { key: 'key', within: '2m' } as const
    await work.enqueue({ name: 'first' }, { unique })
    await clock.advance('1m')
    expect((await work.enqueue({ name: 'second' }, { unique })).duplicate).toBe(true)
    await clock.advance('61s')
    expect((await work.enqueue({ name: 'third' }, { unique })).duplicate).toBe(false)
    await clock.advance('1m')
    expect(ran).toEqual(['first', 'third'])
  })

  test('of another task is no duplicate', async () => {
    const { clock, start } = createEngineHarness()
    const one = task('work.one', { run: () => undefined })
    const two = task('work.two', { run: () => undefined })
    await start({ tasks: [one, two] })
    const options = { unique: 'key', delay: '1h' } as const
    await one.enqueue(undefined, options)
    expect((await two.enqueue(undefined, options)).duplicate).toBe(false)
    await clock.advance(0)
  })

  test('within one list of calls is a duplicate too', async () => {
    const { clock, work, ran } = await harness()
    const jobs = await work.enqueueMany([{ name: 'a' }, { name: 'b' }, { name: 'a' }], {
      unique: { key: (item) => item.name },
    })
    expect(jobs.map((job) => job.duplicate)).toEqual([false, false, true])
    expect(jobs[2]?.id).toBe(jobs[0]?.id)
    await clock.advance('1m')
    expect(ran).toEqual(['a', 'b'])
  })
})
