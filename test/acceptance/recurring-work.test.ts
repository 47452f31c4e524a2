import { describe, expect, test } from 'vitest'
import type { ScheduleOptions, ScheduleView, Sluice, SluiceEvents } from '../../src/exports/index.ts'
import { type Call, expectSeconds, rate, Room, type RoomOptions } from './harness.ts'

const TICK: Call = { key: 'acme', name: 'tick' }

/** A room, the starts of its series, and the news of it. */
class Series {
  readonly room: Room
  readonly dueSeconds: number[] = []
  readonly skipped: string[] = []
  readonly discarded: string[] = []

  private constructor(room: Room) {
    this.room = room
  }

  static async open(options: RoomOptions): Promise<Series> {
    const series = new Series(await Room.open(options))
    series.hear(series.room.first)
    return series
  }

  hear(engine: Sluice): void {
    const seconds = (date: Date): number => (date.getTime() - this.room.wall(0).getTime()) / 1000
    engine.on('schedule.fired', ({ dueAt }) => this.dueSeconds.push(seconds(dueAt)))
    engine.on('schedule.skipped', ({ dueAt, reason }) => this.skipped.push(`${seconds(dueAt)} ${reason}`))
    engine.on('job.discarded', ({ id }: SluiceEvents['job.discarded']) => this.discarded.push(id))
  }

  register(options: ScheduleOptions<Call>, engine: Sluice = this.room.last): Promise<ScheduleView> {
    return engine.schedule(this.room.gated, TICK, { name: 'series', ...options })
  }

  async view(): Promise<ScheduleView> {
    const [view] = await this.room.last.schedules.list()
    if (!view) throw new Error('nothing is registered')
    return view
  }

  get ticks(): number[] {
    return this.room.starts.filter((start) => start.name === 'tick').map((start) => start.atUs / 1e6)
  }
}

describe('a series under a limit', () => {
  test('that begins at once runs late where the budget says so, on the due times that it has', async () => {
    const series = await Series.open({ policy: rate(1, 0.7, 1) })
    await series.room.enqueue({ key: 'acme', name: 'before' })
    await series.room.until(0)
    await series.register({ every: '1s', immediately: true, maxRuns: 3 })
    await series.room.until(10)
    expectSeconds(series.room.secondsOf('acme'), [0, 0.7, 1.4, 2.1])
    expect(series.dueSeconds).toEqual([0, 1, 2])
    expect(await series.view()).toMatchObject({ runs: 3, state: 'completed', nextAt: null })
    expect(series.room.warnings).toEqual([])
    await series.room.finish()
  })

  test('skips what would exceed its maxWait, and goes on with the first due time at which the budget is there', async () => {
    const series = await Series.open({ policy: { ...rate(1, 3.5, 1), maxWait: '1s' } })
    await series.register({ every: '1s', maxRuns: 3 })
    await series.room.until(1.5)
    expect(await series.view()).toMatchObject({ runs: 1, state: 'active' })
    await series.room.until(30)
    expectSeconds(series.ticks, [1, 5, 9])
    expect(series.skipped).toEqual(['2 late', '6 late'])
    expect(series.discarded).toEqual([])
    expect(await series.view()).toMatchObject({ runs: 3, state: 'completed' })
    expect(await series.room.last.jobs.list({})).toHaveLength(3)
    expect(series.room.warnings).toEqual([expect.stringContaining('series is faster than its limit gate')])
    await series.room.finish()
  })

  test('is over when the budget returns only after its end, and stays over', async () => {
    const series = await Series.open({ policy: rate(1, 10, 1), file: true })
    const { room } = series
    const options = { every: '1s', until: room.wall(5) } as const
    await room.enqueue({ key: 'acme', name: 'before' })
    await room.until(0)
    await series.register(options)
    await room.until(6)
    expect(await series.view()).toMatchObject({ runs: 0, state: 'completed', nextAt: null })
    await room.halt()
    await room.engine()
    expect(await series.register(options)).toMatchObject({ runs: 0, state: 'completed' })
    await room.until(30)
    expect(series.ticks).toEqual([])
    expect(await room.last.jobs.list({})).toHaveLength(1)
    await room.finish()
  })

  test('does not run an occurrence that is due exactly at its end', async () => {
    const series = await Series.open({ policy: rate(100, 1) })
    await series.register({ every: '1s', until: series.room.wall(3) })
    await series.room.until(9)
    expectSeconds(series.ticks, [1, 2])
    expect(await series.view()).toMatchObject({ runs: 2, state: 'completed' })
  })

  test('that is faster than its limit leaves out what comes due while one waits, and never queues up', async () => {
    const series = await Series.open({ policy: rate(1, 2.5, 1) })
    await series.register({ every: '1s' })
    for (let at = 1; at <= 11; at++) {
      await series.room.until(at)
      const waiting = await series.room.last.jobs.list({ states: ['available'] })
      expect(waiting.length).toBeLessThanOrEqual(1)
    }
    expectSeconds(series.ticks, [1, 3.5, 6, 8.5, 11])
    expect(series.room.warnings).toHaveLength(1)
    await series.room.last.schedules.remove('series')
  })

  test('waits behind the jobs of its key, and a push-back of the key delays it', async () => {
    const series = await Series.open({ policy: rate(1, 2, 1) })
    await series.room.enqueueMany(3, { key: 'acme' })
    await series.register({ every: '5s', maxRuns: 2 })
    await series.room.until(20)
    expectSeconds(series.ticks, [6, 10])
    await series.room.finish()
  })
})

describe('a series of several engines on one file', () => {
  test('fires each occurrence once, whichever processes live', async () => {
    const series = await Series.open({ policy: rate(100, 1), file: true })
    const { room } = series
    const second = await room.engine()
    series.hear(second)
    for (const engine of [room.first, second]) await series.register({ every: '1s' }, engine)
    await room.until(10.5)
    expectSeconds(series.ticks, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    await room.halt(room.first)
    await room.until(13.5)
    expectSeconds(series.ticks.slice(10), [11, 12, 13])
    expect(series.dueSeconds).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])
    await room.last.schedules.remove('series')
    await room.finish()
  })

  test('goes on after a restart where it was, without making up for what was missed', async () => {
    const series = await Series.open({ policy: rate(100, 1), file: true })
    const { room } = series
    await series.register({ every: '10s' })
    await room.until(25)
    await room.halt()
    await room.until(43, { look: false })
    await room.engine()
    await room.until(43)
    expect(await series.register({ every: '10s' })).toMatchObject({ runs: 2, nextAt: room.wall(50) })
    await room.until(65)
    expectSeconds(series.ticks, [10, 20, 50, 60])
    await room.last.schedules.remove('series')
  })

  test('catches up, one after the other, where it was told to', async () => {
    const series = await Series.open({
      policy: rate(100, 1),
      file: true,
      run: (_, __, clock) => clock.sleep('2s'),
    })
    const { room } = series
    await series.register({ every: '10s', onMissed: 'catchUp' })
    await room.until(15)
    await room.halt()
    await room.until(43, { look: false })
    await room.engine()
    await room.until(65, { look: false })
    expectSeconds(series.ticks, [10, 43, 45, 47, 50, 60])
    await room.last.schedules.remove('series')
  })

  test('tells of what came due while it caught up, though that met a run that had not ended', async () => {
    const series = await Series.open({
      policy: rate(100, 1),
      file: true,
      run: (_, __, clock) => clock.sleep('8s'),
    })
    const { room } = series
    await series.register({ every: '10s', onMissed: 'catchUp' })
    await room.until(1)
    await room.halt()
    await room.until(43, { look: false })
    series.hear(await room.engine())
    await room.until(75, { look: false })
    expectSeconds(series.ticks, [43, 51, 59, 67])
    await room.until(85, { look: false })
    expect(series.dueSeconds).toEqual([10, 20, 30, 40, 80])
    expect(series.skipped).toEqual(['50 overlap', '70 overlap'])
    await room.last.schedules.remove('series')
  })

  test('is run by one engine though another registered it, and changed by the other', async () => {
    const series = await Series.open({ policy: rate(100, 1), file: true })
    const { room } = series
    const edge = await room.engine({ started: false })
    await series.register({ every: '4s' }, edge)
    await room.until(5)
    await series.register({ every: '3s' }, edge)
    await room.until(12)
    expectSeconds(series.ticks, [4, 8, 11])
    expect(await edge.schedules.remove('series')).toBe(true)
    await room.until(20)
    expect(series.ticks).toHaveLength(3)
  })
})

describe('the clocks of a series', () => {
  test('even distances do not notice a step of the wall clock', async () => {
    const series = await Series.open({ policy: rate(100, 1) })
    await series.register({ every: '1s', maxRuns: 6 })
    await series.room.until(2.5)
    series.room.clock.step('-2h')
    await series.room.until(4.5)
    series.room.clock.step('5h')
    await series.room.until(9)
    expectSeconds(series.ticks, [1, 2, 3, 4, 5, 6])
  })

  test('a cron of one time of day runs once a day over a change to daylight saving', async () => {
    const series = await Series.open({ policy: rate(100, 1) })
    const { room } = series
    room.clock.step(Date.parse('2026-03-29T00:15:00Z') - room.clock.now())
    const startMs = room.clock.now()
    await series.register({ cron: '30 2 * * *', timezone: 'Europe/Berlin' })
    await room.clock.advance('25h')
    expect(series.ticks.map((seconds) => new Date(startMs + seconds * 1000).toISOString())).toEqual([
      '2026-03-29T01:00:00.000Z',
      '2026-03-30T00:30:00.000Z',
    ])
    await room.last.schedules.remove('series')
  })
})

test('an occurrence is not late because every slot is taken: it starts when one is free', async () => {
  const series = await Series.open({
    policy: rate(100, 1),
    engine: { queues: { default: { concurrency: 1 } } },
    run: (call, _, clock) => (call.name === 'long' ? clock.sleep('3.5s') : undefined),
  })
  await series.room.enqueueFree({ name: 'long' })
  await series.room.until(0)
  await series.register({ every: '1s', overlap: 'allow', maxRuns: 4 })
  await series.room.until(9)
  expectSeconds(series.ticks, [3.5, 3.5, 3.5, 4])
  expect(series.dueSeconds).toEqual([1, 2, 3, 4])
})
