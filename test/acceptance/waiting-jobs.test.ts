import { describe, expect, test } from 'vitest'
import { FREE, rate, Room } from './harness.ts'

describe('while jobs wait', () => {
  test('one that is cancelled never starts', async () => {
    const room = await Room.open({ policy: rate(1, 8) })
    await room.enqueue({ key: 'A', name: 't1' })
    const t2 = await room.enqueue({ key: 'A', name: 't2' })
    await room.until(1)
    expect(await room.first.jobs.cancel(t2.id)).toBe(true)
    expect(await room.view(t2)).toMatchObject({ state: 'cancelled', attempt: 0 })
    await room.until(30)
    expect(room.story).toEqual(['t1@0'])
    await room.finish()
  })

  test('everyone behind a cancelled one moves up, and nothing was charged for it', async () => {
    const room = await Room.open({ policy: rate(1, 10) })
    const [, t2, t3] = await room.enqueueMany(4, { key: 'A', name: 't' })
    await room.until(1)
    await room.first.jobs.cancel(t2!.id)
    await room.first.jobs.cancel(t3!.id)
    await room.until(2)
    await room.enqueue({ key: 'A', name: 'e' })
    await room.until(40)
    expect(room.story).toEqual(['t1@0', 't4@10', 'e@20'])
    await room.finish()
  })

  test('an update keeps the id and the place, and only the latest input runs, once', async () => {
    const room = await Room.open({ policy: rate(1, 2) })
    await room.enqueue({ key: 'A', name: 'warm-up' })
    await room.until(0.1)
    const v1 = await room.enqueue({ key: 'A', name: 'v1' }, { unique: { key: 'pk', onConflict: 'update' } })
    await room.until(0.5)
    const v2 = await room.enqueue({ key: 'A', name: 'v2' }, { unique: { key: 'pk', onConflict: 'update' } })
    expect(v2).toMatchObject({ id: v1.id, duplicate: true })
    await room.until(10)
    expect(room.story).toEqual(['warm-up@0', 'v2@2'])
    await room.finish()
  })

  test('an update that changes the key moves the job to the other key’s line', async () => {
    const room = await Room.open({ policy: rate(1, 10) })
    for (const key of ['A', 'B']) await room.enqueue({ key, name: `${key}1` })
    const unique = { key: 'pk', onConflict: 'update' } as const
    await room.enqueue({ key: 'A', name: 'before' }, { unique })
    await room.enqueue({ key: 'B', name: 'B2' })
    await room.enqueue({ key: 'A', name: 'A2' })
    await room.until(1)
    await room.enqueue({ key: 'B', name: 'after' }, { unique })
    await room.until(30)
    expect(room.story.slice(2).sort()).toEqual(['A2@10', 'B2@20', 'after@10'])
    await room.finish()
  })

  test('the last of seventeen is told its place and its start, and both come true as the line moves on', async () => {
    const room = await Room.open({ policy: rate(5, 5) })
    const jobs = await room.enqueueMany(22, { key: 'acme', name: 't' })
    await room.until(0.4)
    const last = jobs.at(-1)!
    const why = await room.first.jobs.explain(last.id)
    expect(why).toMatchObject({ position: 17, linePosition: 17, waitsOn: { limit: 'gate', key: 'acme' }, exact: true })
    expect(why.expectedStart).toEqual(room.wall(17))
    expect(await room.first.limits.inspect('gate', 'acme')).toMatchObject([{ waiting: 17, drained: room.wall(17) }])
    await room.until(10.5)
    expect(await room.first.jobs.explain(last.id)).toMatchObject({ position: 7, expectedStart: room.wall(17) })
    await room.until(17)
    expect(room.story.at(-1)).toBe('t22@17')
    await room.finish()
  })

  test('an urgent one goes first, and the others keep their order', async () => {
    const room = await Room.open({ policy: rate(1, 10) })
    await room.enqueueMany(4, { key: 'A', name: 't' })
    await room.until(1)
    await room.enqueue({ key: 'A', name: 'H' }, { priority: 10 })
    await room.until(50)
    expect(room.story).toEqual(['t1@0', 'H@10', 't2@20', 't3@30', 't4@40'])
    await room.finish()
  })

  test('two queues share one budget, which is spent at the exact instants', async () => {
    const room = await Room.open({
      policy: rate(2, 0.7),
      engine: { queues: { default: { concurrency: 10 }, exports: { concurrency: 10 } } },
    })
    for (let i = 1; i <= 8; i++)
      await room.enqueue({ key: 'A', name: `t${i}` }, { queue: i % 2 === 0 ? 'default' : 'exports' })
    await room.until(3)
    const seconds = room.starts.map((start) => start.atUs / 1e6)
    expect(seconds).toEqual([0, 0, 0.35, 0.7, 1.05, 1.4, 1.75, 2.1])
    await room.finish()
  })

  test('a hundred of one key hold up neither another key nor jobs without a limit', async () => {
    const room = await Room.open({ policy: rate(1, 60), engine: { queues: { default: { concurrency: 2 } } } })
    await room.enqueueMany(100, { key: 'A' })
    await room.until(0.1)
    await room.enqueue({ key: 'B' })
    await room.enqueueFree({ key: FREE })
    await room.until(0.2)
    expect(room.story.sort()).toEqual(['A1@0', 'B@0.1', 'free@0.1'])
    await room.finish({ waiting: 99 })
  })

  test('a hundred of a noisy tenant hold up none of fifty quiet ones, and keep their own pace', async () => {
    const room = await Room.open({
      policy: rate(5, 1),
      engine: { queues: { default: { concurrency: 10 } } },
      run: (_call, _ctx, clock) => clock.sleep('10ms'),
    })
    await room.enqueueMany(100, { key: 'noisy' })
    for (let i = 0; i < 50; i++) await room.enqueue({ key: `quiet${i}` })
    await room.until(20, { look: false })
    for (let i = 0; i < 50; i++) expect(Math.max(...room.secondsOf(`quiet${i}`))).toBeLessThanOrEqual(0.06)
    const noisy = room.secondsOf('noisy')
    expect(noisy).toHaveLength(100)
    for (const [i, at] of noisy.entries()) expect(at - Math.max(0, (i - 4) * 0.2)).toBeLessThanOrEqual(0.03)
    await room.finish()
  })

  test('ten thousand of one key do not hold up another key’s job for one claim', async () => {
    const room = await Room.open({ policy: rate(1, 60), engine: { queues: { default: { concurrency: 2 } } } })
    await room.enqueueMany(10_000, { key: 'A' })
    await room.until(0.1, { look: false })
    await room.enqueue({ key: 'B' })
    await room.until(0.1, { look: false })
    expect(room.story).toEqual(['A1@0', 'B@0.1'])
    expect(room.errors).toEqual([])
  })

  test('a job waits for as long as it takes: nothing ends it by default', async () => {
    const room = await Room.open({ policy: rate(1, 26 * 3600) })
    const [, second] = await room.enqueueMany(2, { key: 'A' })
    await room.until(25 * 3600)
    expect(await room.view(second!)).toMatchObject({ state: 'available', attempt: 0 })
    await room.until(26 * 3600)
    expect(await room.view(second!)).toMatchObject({ state: 'completed', attempt: 1 })
    await room.finish()
  })

  test('a thousand refusals leave the attempt at its first', async () => {
    const attempts: number[] = []
    const room = await Room.open({ policy: rate(1, 1), run: (_, ctx) => void attempts.push(ctx.attempt) })
    await room.enqueueMany(1001, { key: 'A' })
    await room.until(1000)
    expect(attempts).toEqual(Array.from({ length: 1001 }, () => 1))
    await room.finish()
  })
})
