import { describe, expect, test } from 'vitest'
import { every, expectSeconds, rate, Room, times } from './harness.ts'

describe('an engine that is stopped and another that goes on', () => {
  test('leave a waiting job its exact instant, and its reason readable in between', async () => {
    const room = await Room.open({ policy: rate(1, 8), file: true })
    await room.enqueue({ key: 'A', name: 't1' })
    const t2 = await room.enqueue({ key: 'A', name: 't2' })
    await room.until(2)
    const why = await room.first.jobs.explain(t2.id)
    expect(why).toMatchObject({ waitsOn: { limit: 'gate', key: 'A' }, position: 1, until: room.wall(8), exact: true })
    expect(why.job.throttledUntil).toEqual(room.wall(8))
    await room.halt()
    const reader = await room.engine({ started: false })
    expect((await reader.jobs.explain(t2.id)).until).toEqual(room.wall(8))
    await room.halt(reader)
    await room.until(3)
    await room.engine()
    await room.until(9)
    expect(room.story).toEqual(['t1@0', 't2@8'])
    await room.finish()
  })

  test('spend no second burst, and no start falls due twice', async () => {
    const room = await Room.open({ policy: rate(15, 60), file: true })
    await room.enqueueMany(60, { key: 'A' })
    await room.until(30)
    await room.halt()
    await room.until(31)
    await room.engine()
    await room.until(200)
    expectSeconds(room.secondsOf('A'), [...times(15, 0), ...every(4, 4, 28), ...every(4, 32, 180)])
    await room.finish()
  })

  test('keep the distance between starts, however long jobs were stored before anybody worked', async () => {
    const room = await Room.open({ policy: { ...rate(2, 2), startEmpty: true }, file: true, started: false })
    const writer = await room.engine({ started: false })
    await room.enqueueMany(3, { key: 'A' }, {}, writer)
    await room.halt(writer)
    await room.clock.advance('5s')
    await room.engine()
    await room.until(10)
    expectSeconds(room.secondsOf('A'), [5, 6, 7])
    await room.finish()
  })

  test('keep the distance between starts, with jobs that were stored while no process worked', async () => {
    const room = await Room.open({ policy: { ...rate(2, 2), startEmpty: true }, file: true, started: false })
    const writer = await room.engine({ started: false })
    await room.enqueueMany(3, { key: 'A' }, {}, writer)
    await room.halt(writer)
    const first = await room.engine()
    await room.until(2.2)
    expectSeconds(room.secondsOf('A'), [0, 1, 2])
    await room.halt(first)
    await room.engine()
    await room.enqueue({ key: 'A' })
    await room.until(4)
    expectSeconds(room.secondsOf('A'), [0, 1, 2, 3])
    await room.finish()
  })

  test('pass a waiting job on once, whatever recovery and promotion do meanwhile', async () => {
    const room = await Room.open({ policy: rate(1, 10), file: true })
    await room.enqueue({ key: 'A', name: 'A1' })
    await room.enqueue({ key: 'A', name: 'A2' })
    await room.enqueueFree({ key: 'free', name: 'promoted' }, { delay: '3s' })
    await room.until(3)
    await room.engine()
    await room.until(10)
    await room.enqueue({ key: 'A', name: 'A3' })
    await room.until(25)
    expect(room.story).toEqual(['A1@0', 'promoted@3', 'A2@10', 'A3@20'])
    await room.finish()
  })
})

describe('a lost lease', () => {
  test('gives the job to a second run that waits for budget, and refuses the outcome of the first', async () => {
    const lost: string[] = []
    const room = await Room.open({
      policy: rate(1, 0.7),
      file: true,
      run: (_, ctx, clock) => clock.sleep('5s').then(() => `attempt ${ctx.attempt}`),
      engine: { lease: '500ms' },
      started: false,
    })
    const first = await room.engine({ heartbeat: '1h' })
    first.on('job.lease_lost', ({ id, attempt }) => lost.push(`${id} ${attempt}`))
    const job = await room.enqueue({ key: 'A' })
    await room.until(0.55)
    await room.engine()
    await room.until(1, { look: false })
    expectSeconds(room.secondsOf('A'), [0, 0.7])
    await room.until(5.2)
    expect(lost).toEqual([`${job.id} 1`])
    expect(room.warnings.filter((message) => message.includes('result was refused'))).toHaveLength(1)
    expect(await room.view(job)).toMatchObject({ state: 'active', attempt: 2, result: null })
    await room.until(12)
    expect(await room.view(job)).toMatchObject({ state: 'completed', attempt: 2, result: 'attempt 2' })
    await room.finish()
  })

  test('that the same engine takes back: the first run still settles nothing', async () => {
    const room = await Room.open({
      policy: rate(10, 1),
      run: (_, ctx, clock) => clock.sleep(ctx.attempt === 1 ? '7s' : '10s').then(() => `attempt ${ctx.attempt}`),
      engine: { lease: '500ms', heartbeat: '1h' },
    })
    const job = await room.enqueue({ key: 'A' })
    // The recovery pass at 5 s takes the job back; its second run lasts beyond the end of the first, and is not taken back before 10 s.
    await room.until(7.5, { look: false })
    expect(room.starts.map(({ attempt, atUs }) => [attempt, atUs])).toEqual([
      [1, 0],
      [2, 5_000_000],
    ])
    expect(await room.view(job)).toMatchObject({ state: 'active', attempt: 2, result: null })
    expect(room.warnings.filter((message) => message.includes('result was refused'))).toHaveLength(1)
    await room.first.jobs.cancel(job.id)
    await room.until(16)
    expect(await room.view(job)).toMatchObject({ state: 'cancelled', attempt: 2 })
    await room.finish()
  })

  test('of the last attempt discards the job with that reason', async () => {
    const discarded: string[] = []
    const room = await Room.open({
      policy: rate(10, 1),
      file: true,
      task: { retry: { attempts: 1 }, onError: (error) => discarded.push((error as { code?: string }).code ?? '') },
      run: (_, __, clock) => clock.sleep('1m'),
      engine: { lease: '500ms' },
      started: false,
    })
    await room.engine({ heartbeat: '1h' })
    const job = await room.enqueue({ key: 'A' })
    await room.until(1)
    await room.engine()
    expect(await room.view(job)).toMatchObject({ state: 'discarded', attempt: 1, error: { code: 'lease.lost' } })
    expect(discarded).toEqual(['lease.lost'])
    await room.until(61)
    await room.finish()
  })
})
