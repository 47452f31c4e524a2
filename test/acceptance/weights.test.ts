import { describe, expect, test } from 'vitest'
import { input, limit, Sluice, task } from '../../src/exports/index.ts'
import { expectSeconds, noRefill, rate, Room, times } from './harness.ts'

describe('a budget', () => {
  test('refills at the exact instants after its burst', async () => {
    const room = await Room.open({ policy: rate(5, 10) })
    await room.enqueueMany(8, { key: 'A' })
    await room.until(7)
    expectSeconds(room.secondsOf('A'), [...times(5, 0), 2, 4, 6])
    await room.finish()
  })

  test('reads as full before its first grant, and then gives exactly what it holds', async () => {
    const room = await Room.open({ policy: noRefill(5) })
    expect(await room.first.limits.inspect('gate')).toEqual([])
    expect(await room.first.limits.inspect('gate', 'A')).toMatchObject([{ available: 5, debt: 0, capacity: 5 }])
    await room.enqueueMany(10, { key: 'A' })
    await room.until(30)
    expectSeconds(room.secondsOf('A'), times(5, 0))
    expect(await room.first.limits.inspect('gate', 'A')).toMatchObject([{ available: 0, debt: 0, waiting: 5 }])
    await room.finish({ waiting: 5 })
  })

  test('is charged by weight', async () => {
    const room = await Room.open({ policy: noRefill(5) })
    await room.enqueueMany(4, { key: 'A', weight: 2 })
    await room.until(30)
    expectSeconds(room.secondsOf('A'), [0, 0])
    expect(await room.first.limits.inspect('gate', 'A')).toMatchObject([{ available: 1, waiting: 2 }])
    await room.finish({ waiting: 2 })
  })
})

describe('a heavy job', () => {
  test('at the head starts when the whole bucket has refilled, before the light ones behind it', async () => {
    const room = await Room.open({ policy: rate(5, 1), engine: { queues: { default: { concurrency: 1 } } } })
    await room.enqueueMany(5, { key: 'A', name: 'drain' })
    await room.until(0)
    await room.enqueue({ key: 'A', name: 'fat', weight: 5 })
    await room.enqueueMany(500, { key: 'A', name: 'light' })
    await room.until(0.999)
    expect(room.starts.length).toBe(5)
    await room.until(1.2)
    expect(room.story.slice(5)).toEqual(['fat@1', 'light1@1.2'])
    await room.until(110)
    await room.finish()
  })

  test('is not robbed of what it saves up by another queue on the same budget', async () => {
    const room = await Room.open({
      policy: rate(5, 1),
      engine: { queues: { default: { concurrency: 10 }, units: { concurrency: 10 } } },
    })
    await room.enqueueMany(5, { key: 'A', name: 'drain' })
    await room.until(0)
    await room.enqueue({ key: 'A', name: 'fat', weight: 5 })
    await room.enqueueMany(20, { key: 'A', name: 'unit' }, { queue: 'units' })
    await room.until(1)
    expect(room.story.slice(5)).toEqual(['fat@1'])
    await room.until(6)
    await room.finish()
  })

  test('that is cancelled lets those behind it go at once with what it had saved up', async () => {
    const room = await Room.open({ policy: rate(5, 5) })
    await room.enqueueMany(5, { key: 'A', name: 'drain' })
    await room.until(0)
    const fat = await room.enqueue({ key: 'A', name: 'fat', weight: 5 })
    await room.enqueueMany(4, { key: 'A', name: 'light' })
    await room.until(2.5)
    await room.first.jobs.cancel(fat.id)
    await room.until(4)
    expect(room.story.slice(5)).toEqual(['light1@2.5', 'light2@2.5', 'light3@3', 'light4@4'])
    await room.finish()
  })

  test('gives way to a more urgent light one, which takes of what was saved up', async () => {
    const room = await Room.open({ policy: rate(5, 5) })
    await room.enqueueMany(5, { key: 'A', name: 'drain' })
    await room.until(0)
    await room.enqueue({ key: 'A', name: 'fat', weight: 5 })
    await room.until(2.5)
    await room.enqueue({ key: 'A', name: 'urgent' }, { priority: 1 })
    await room.until(6)
    expect(room.story.slice(5)).toEqual(['urgent@2.5', 'fat@6'])
    await room.finish()
  })

  test('that could never start is refused, and the light ones on its key run', async () => {
    const room = await Room.open({ policy: rate(5, 1) })
    await expect(room.enqueue({ key: 'A', weight: 6 })).rejects.toMatchObject({ code: 'limit.weight.above_burst' })
    await room.enqueueMany(3, { key: 'A' })
    await room.until(1)
    expectSeconds(room.secondsOf('A'), [0, 0, 0])
    expect((await room.first.jobs.list()).length).toBe(3)
    await room.finish()
  })

  test('runs on a full bucket, and leaves it in debt, when the burst was lowered below its weight', async () => {
    const room = await Room.open({ policy: rate(5, 5), file: true })
    await room.enqueueMany(5, { key: 'A', name: 'drain' })
    await room.until(0)
    await room.enqueue({ key: 'A', name: 'fat', weight: 5 })
    await room.enqueue({ key: 'A', name: 'next' })
    await room.halt()
    const starts: string[] = []
    const lowered = task('work.gated', input<{ key: string; name: string }>(), {
      limits: [limit('gate', { rate: 1, per: '1s', burst: 2 }).by((call) => call.key)],
      run: (call) => void starts.push(`${call.name}@${room.atUs / 1e6}`),
    })
    const engine = new Sluice({ store: room.store, tasks: [lowered], clock: room.clock, logger: room.logger() })
    await engine.start()
    await room.clock.advance('2.5s')
    expect(starts).toEqual(['fat@2'])
    expect(await engine.limits.inspect('gate', 'A')).toMatchObject([{ available: 0, debt: 3 }])
    await room.clock.advance('20s')
    expect(starts).toEqual(['fat@2', 'next@6'])
    await engine.stop({ within: 0 })
    expect(room.errors).toEqual([])
  })
})

describe('a weight that is none', () => {
  test.each([0, -1, 1.5, Number.NaN, Infinity, '' as unknown as number, '3' as unknown as number])(
    '(%s) is refused, and the engine goes on',
    async (weight) => {
      const room = await Room.open({ policy: rate(5, 1) })
      await expect(room.enqueue({ key: 'A', weight })).rejects.toMatchObject({ code: 'limit.weight.invalid' })
      expect(await room.first.jobs.list()).toEqual([])
      await room.enqueue({ key: 'A' })
      await room.until(1)
      expectSeconds(room.secondsOf('A'), [0])
      await room.finish()
    },
  )
})

test('limits and keys whose names join to the same text are different budgets', async () => {
  const room = new Room({ policy: rate(1, 1) })
  const once = { rate: 1, per: '365d' } as const
  const started: string[] = []
  const work = task('work.named', input<{ name: string }>(), { run: ({ name }) => void started.push(name) })
  const [a, ab] = [limit('a', once), limit('a:b', once)]
  const engine = new Sluice({
    store: room.store,
    tasks: [work],
    limits: [a, ab],
    clock: room.clock,
    logger: room.logger(),
  })
  await engine.start()
  await work.enqueue({ name: 'a b:c' }, { limits: [a.key('b:c')] })
  await work.enqueue({ name: 'a:b c' }, { limits: [ab.key('c')] })
  await work.enqueue({ name: 'a b:c again' }, { limits: [a.key('b:c')] })
  await room.clock.advance('1s')
  expect(started).toEqual(['a b:c', 'a:b c'])
  await engine.stop({ within: 0 })
})
