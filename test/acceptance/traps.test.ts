// The traps of other engines of this field, one test for each row of cases/traps.md that can happen on an embedded store.
import { describe, expect, test } from 'vitest'
import { limit, Sluice, task } from '../../src/exports/index.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { every, expectSeconds, noRefill, rate, Room, skewed, times, window } from './harness.ts'
import { sized } from '../sized.ts'

const MANY = sized(2000, 10_000)

/** The most starts that any half-open interval of a length holds. */
function most(seconds: readonly number[], length: number): number {
  const counts = seconds.map((from) => seconds.filter((at) => at >= from && at < from + length).length)
  return Math.max(0, ...counts)
}

describe('a budget that was thought to be kept', () => {
  test('the edge of a window gives no second window at once', async () => {
    for (const policy of [window(11, 1), rate(11, 1)]) {
      const room = await Room.open({ policy })
      await room.until(0.9)
      await room.enqueueMany(40, { key: 'A' })
      await room.until(4)
      const allowed = 'rate' in policy ? 2 * 11 : 11
      expect(most(room.secondsOf('A'), 1)).toBeLessThanOrEqual(allowed)
      expect(most(room.secondsOf('A'), 0.5)).toBeLessThanOrEqual('rate' in policy ? 11 + 6 : 11)
      expect(room.starts).toHaveLength(40)
      await room.finish()
    }
  })

  test('a refusal by any one of several limits leaves the counters of all others as they were', async () => {
    const clock = createManualClock()
    const names = ['a', 'b', 'c', 'd']
    for (const closed of names) {
      const limits = names.map((name) => limit(name, noRefill(name === closed ? 1 : 5)))
      const work = task('work', { limits, run: () => null })
      const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [work], clock })
      await sluice.start()
      for (let i = 0; i < 3; i++) await work.enqueue()
      await clock.advance('10s')
      for (const name of names) {
        const [bucket] = await sluice.limits.inspect(name)
        expect(bucket, `${name}, while ${closed} refuses`).toMatchObject({ available: name === closed ? 0 : 4 })
      }
      await sluice.stop()
    }
  })

  test('small limits are exact: one a day, three an hour, seven a minute', async () => {
    const cases: [count: number, seconds: number][] = [
      [1, 86_400],
      [3, 3600],
      [7, 60],
    ]
    for (const [count, seconds] of cases) {
      const room = await Room.open({ policy: rate(count, seconds) })
      await room.enqueueMany(2 * count, { key: 'A' })
      await room.until(seconds + 60)
      const refilled = Array.from({ length: count }, (_, i) => ((i + 1) * seconds) / count)
      expectSeconds(room.secondsOf('A'), [...times(count, 0), ...refilled])
      await room.finish()
    }
  })

  test('a later process does not forget what was spent', async () => {
    const room = await Room.open({ policy: rate(15, 60), file: true })
    await room.enqueueMany(60, { key: 'A' })
    await room.until(9)
    for (let i = 0; i < 5; i++) {
      await room.halt()
      await room.engine()
      await room.until(10 + i)
    }
    await room.until(180)
    expectSeconds(room.secondsOf('A'), [...times(15, 0), ...every(4, 4, 180)])
    await room.finish()
  })

  test('a caller whose clock is five minutes ahead is admitted no sooner', async () => {
    const room = await Room.open({ policy: rate(1, 10), file: true })
    await room.engine({ clock: skewed(room.clock, 300_000) })
    await room.enqueueMany(7, { key: 'A' }, {}, room.last)
    await room.until(60, { look: false })
    expect(room.secondsOf('A')).toHaveLength(7)
    expect(most(room.secondsOf('A'), 10)).toBe(1)
    await room.finish()
  })

  test('one at a time is one at a time for two processes that each could run ten', async () => {
    let atOnce = 0
    let highest = 0
    const room = await Room.open({
      policy: { concurrency: 1 },
      file: true,
      run: async (_call, _ctx, clock) => {
        highest = Math.max(highest, ++atOnce)
        await clock.sleep('100ms')
        atOnce--
      },
    })
    await room.engine()
    await room.enqueueMany(20, { key: 'A' })
    await room.until(10, { look: false })
    expect(room.starts).toHaveLength(20)
    expect(highest).toBe(1)
    await room.finish()
  })
})

describe('a limit that held too much', () => {
  test('thousands of parked jobs of one key do not delay another key by one claim', async () => {
    const room = await Room.open({ policy: rate(1, 3600, 1), engine: { queues: { default: { concurrency: 1 } } } })
    const parked = Array.from({ length: MANY }, () => room.first.enqueue(room.gated, { key: 'A' }))
    await Promise.all(parked)
    await room.until(0, { look: false })
    await room.enqueue({ key: 'B', name: 'B' })
    await room.until(0, { look: false })
    expect(room.secondsOf('B')).toEqual([0])
    expect(room.secondsOf('A')).toEqual([0])
  })

  test('a thousand refusals burn no attempt', async () => {
    const room = await Room.open({ policy: rate(1, 1), task: { retry: { attempts: 1 } } })
    await room.enqueue({ key: 'A' })
    const last = await room.enqueue({ key: 'A', name: 'last' }, { priority: -1 })
    for (let i = 1; i <= 1000; i++) {
      // One that is more urgent comes each time, and takes what there is.
      await room.enqueue({ key: 'A' })
      await room.until(i, { look: false })
    }
    expect(await room.view(last)).toMatchObject({ state: 'available', attempt: 0 })
    await room.until(1001)
    expect(await room.view(last)).toMatchObject({ state: 'completed', attempt: 1 })
    expectSeconds(room.secondsOf('A'), every(1, 0, 1001))
    await room.finish()
  })

  test('a job waits for half a day without being given up', async () => {
    const room = await Room.open({ policy: rate(1, 43_200) })
    const [, late] = await room.enqueueMany(2, { key: 'A' })
    await room.until(43_199)
    expect(await room.view(late!)).toMatchObject({ state: 'available' })
    await room.until(43_200)
    expectSeconds(room.secondsOf('A'), [0, 43_200])
    await room.finish()
  })

  test('a cost above the burst is refused with its own code; after a shrink it runs on a full bucket, into debt', async () => {
    const room = await Room.open({ policy: rate(10, 10) })
    await expect(room.enqueue({ key: 'A', weight: 11 })).rejects.toMatchObject({ code: 'limit.weight.above_burst' })
    await room.enqueue({ key: 'A', weight: 10, name: 'first' })
    await room.enqueue({ key: 'A', weight: 8, name: 'heavy' })
    await room.enqueue({ key: 'A', weight: 1, name: 'light' })
    await room.until(0)
    await room.first.limits.override('gate', 'A', { burst: 4 })
    await room.until(60)
    // Full with four units after 4 s; then four are owed, and one more is asked for.
    expect(room.story).toEqual(['first@0', 'heavy@4', 'light@9'])
  })

  test('thousands of parked jobs follow a limit that is changed', async () => {
    const room = await Room.open({ policy: rate(1, 3600), engine: { queues: { default: { concurrency: 10_000 } } } })
    await Promise.all(Array.from({ length: MANY + 1 }, () => room.first.enqueue(room.gated, { key: 'A' })))
    await room.until(1, { look: false })
    expect(room.starts).toHaveLength(1)
    await room.first.limits.override('gate', undefined, { rate: 100_000, per: '1s', burst: 20_000 })
    await room.until(2, { look: false })
    expect(room.starts).toHaveLength(MANY + 1)
  })
})

describe('a budget that was not used', () => {
  test('a full backlog uses 99 % of a rate and of a window, 98 % of one that is counted in parts', async () => {
    const cases = [
      { policy: rate(10, 1), perSecond: 10, least: 0.99 },
      { policy: window(20, 2), perSecond: 10, least: 0.99 },
      { policy: window(2000, 20), perSecond: 100, least: 0.98 },
    ]
    for (const { policy, perSecond, least } of cases) {
      const room = await Room.open({ policy, engine: { queues: { default: { concurrency: 3000 } } } })
      await Promise.all(Array.from({ length: perSecond * 80 }, () => room.first.enqueue(room.gated, { key: 'A' })))
      await room.until(60, { look: false })
      // The window that began with the first start, and those after it; what a burst adds does not count.
      const from = 'rate' in policy ? 0.001 : 0
      const used = room.secondsOf('A').filter((at) => at >= from && at < 60).length
      expect(used / (perSecond * 60)).toBeGreaterThanOrEqual(least)
    }
  })

  test('a rate together with a bound on jobs at once reaches the rate, for one key and for many', async () => {
    for (const keys of [1, 50]) {
      const clock = createManualClock()
      const starts: number[] = []
      const t0 = clock.monotonicUs()
      const tenant = limit('tenant', { rate: 1000, per: '1s', concurrency: 4 })
      const all = limit('all', { rate: 40, per: '1s', burst: 1, concurrency: 4 })
      const work = task('work', {
        limits: [all],
        run: async () => {
          starts.push(clock.monotonicUs() - t0)
          await clock.sleep('90ms')
        },
      })
      const sluice = new Sluice({
        store: 'sqlite::memory:',
        tasks: [work],
        limits: [tenant],
        clock,
        queues: { default: { concurrency: 50 } },
      })
      await sluice.start()
      for (let i = 0; i < 200; i++) await work.enqueue(undefined, { limits: [tenant.key(`t${i % keys}`)] })
      await clock.advance('6s')
      expect(starts).toEqual(Array.from({ length: 200 }, (_, i) => i * 25_000))
      await sluice.stop()
    }
  })

  test('many keys with one job each drain nothing of the limit over all but their starts', async () => {
    const clock = createManualClock()
    let starts = 0
    const all = limit('all', { rate: 1000, per: '1s', burst: 1 })
    const own = limit('own', { rate: 1, per: '1h' })
    const work = task('work', { limits: [all], run: () => void starts++ })
    const sluice = new Sluice({
      store: 'sqlite::memory:',
      tasks: [work],
      limits: [own],
      clock,
      queues: { default: { concurrency: 50 } },
    })
    await sluice.start()
    await Promise.all(Array.from({ length: 3000 }, (_, i) => work.enqueue(undefined, { limits: [own.key(`k${i}`)] })))
    for (let seconds = 1; seconds <= 3; seconds++) {
      await clock.advance(1000)
      expect(starts).toBeGreaterThanOrEqual(seconds * 1000 * 0.99)
    }
    await sluice.stop()
  })

  test('thirty-two engines on one hot key see no error, and use the whole budget', async () => {
    const room = await Room.open({
      policy: rate(50, 1, 1),
      file: true,
      engine: { queues: { default: { concurrency: 1 } } },
    })
    for (let i = 1; i < 32; i++) await room.engine()
    await room.enqueueMany(100, { key: 'A' })
    await room.until(3, { look: false })
    expectSeconds(room.secondsOf('A'), every(0.02, 0, 1.98))
    await room.finish()
  })
})
