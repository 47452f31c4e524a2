import { describe, expect, test } from 'vitest'
import { input, limit, Sluice, task } from '../../src/exports/index.ts'
import { expectSeconds, expectWithinBudget, rate, Room, times } from './harness.ts'
import { sized } from '../sized.ts'

interface Item {
  readonly tenant: string
}

/** A room whose own limit is not used: clock, logger and clean-up for engines of the test's own tasks. */
function harness(): Room {
  return new Room({ policy: rate(1, 1), file: true })
}

describe('several limits on one job', () => {
  test('a refusal by any of them spends nothing of the others', async () => {
    const room = harness()
    const limits = ['one', 'two', 'three'].map((name) => limit(name, { rate: 10, per: '365d' }))
    for (const closed of [0, 1, 2]) {
      const names = limits.map(({ name }) => `${name}${closed}`)
      const uses = names.map((name) => limit(name, { rate: 10, per: '365d' }))
      const drain = task('drain.one', { limits: [uses[closed]!], run: () => undefined })
      const all = task('use.all', { limits: uses, run: () => undefined })
      const engine = new Sluice({
        store: 'sqlite::memory:',
        tasks: [drain, all],
        clock: room.clock,
        logger: room.logger(),
      })
      await engine.start()
      for (let i = 0; i < 10; i++) await drain.enqueue()
      await room.clock.advance('1s')
      for (let i = 0; i < 5; i++) await all.enqueue()
      await room.clock.advance('1m')
      for (const [i, name] of names.entries())
        expect((await engine.limits.inspect(name, ''))[0]?.available, `of ${name}`).toBe(i === closed ? 0 : 10)
      await engine.stop({ within: 0 })
    }
    expect(room.errors).toEqual([])
  })

  test('a rate with a bound on jobs at once holds both', async () => {
    const room = harness()
    const starts: { atUs: number; weight: number }[] = []
    let running = 0
    let most = 0
    const policy = { rate: 10, per: '1s', concurrency: 4 } as const
    const work = task('work.both', {
      limits: [limit('both', policy)],
      run: async () => {
        starts.push({ atUs: room.atUs, weight: 1 })
        most = Math.max(most, ++running)
        await room.clock.sleep('500ms')
        running--
      },
    })
    const engine = new Sluice({
      store: room.store,
      tasks: [work],
      clock: room.clock,
      logger: room.logger(),
      queues: { default: { concurrency: 50 } },
    })
    await engine.start()
    await Promise.all(times(40, 0).map(() => work.enqueue()))
    await room.clock.advance('10s')
    expect(most).toBe(4)
    expect(starts.length).toBe(40)
    expect(starts.at(-1)?.atUs).toBe(4_500_000)
    expectWithinBudget(policy, starts, 'both')
    await engine.stop()
  })

  test('thousands of keys of one job each reach the full rate of the limit over all', async () => {
    const keys = sized(2000, 10_000)
    const room = harness()
    const seconds: number[] = []
    const work = task('work.many', input<Item>(), {
      limits: [
        limit('all', { rate: 1000, per: '1s', burst: 1 }),
        limit('tenant', { rate: 1, per: '1h' }).by((item) => item.tenant),
      ],
      run: () => void seconds.push(room.atUs / 1e6),
    })
    const engine = new Sluice({ store: 'sqlite::memory:', tasks: [work], clock: room.clock, logger: room.logger() })
    await engine.start()
    await work.enqueueMany(Array.from({ length: keys }, (_, i) => ({ tenant: `t${i}` })))
    await room.clock.advance(keys - 1)
    expectSeconds(
      seconds,
      Array.from({ length: keys }, (_, i) => i / 1000),
    )
    await engine.stop({ within: 0 })
    expect(room.errors).toEqual([])
  })
})

test('a key that may run one job at a time never runs two, on two engines that take many', async () => {
  const room = harness()
  let running = 0
  const order: string[] = []
  const work = task('work.serial', input<{ n: number }>(), {
    limits: [limit('serial', { concurrency: 1 })],
    run: async ({ n }) => {
      expect(++running).toBe(1)
      order.push(`${n}@${room.atUs / 1e6}`)
      await room.clock.sleep('100ms')
      running--
    },
  })
  const engines = [1, 2].map(
    () => new Sluice({ store: room.store, tasks: [work], clock: room.clock, logger: room.logger() }),
  )
  for (const engine of engines) await engine.start()
  for (let n = 0; n < 10; n++) await engines[n % 2]!.enqueue(work, { n })
  await room.clock.advance('30s')
  expect(order.length).toBe(10)
  for (const engine of engines) await engine.stop()
  expect(room.errors).toEqual([])
})

test('a changed limit holds for what waited before the change', async () => {
  const room = await Room.open({ policy: rate(1, 10), file: true })
  await room.enqueueMany(200, { key: 'A' })
  await room.until(15)
  expectSeconds(room.secondsOf('A'), [0, 10])
  await room.halt()
  const seconds: number[] = []
  const faster = task('work.gated', input<{ key: string }>(), {
    limits: [limit('gate', { rate: 1, per: '1s' }).by((call) => call.key)],
    run: () => void seconds.push(room.atUs / 1e6),
  })
  const engine = new Sluice({ store: room.store, tasks: [faster], clock: room.clock, logger: room.logger() })
  await engine.start()
  await room.clock.advance('5m')
  // Half a token was there at the change.
  expectSeconds(
    seconds,
    Array.from({ length: 198 }, (_, i) => 15.5 + i),
  )
  await engine.stop()
  expect(room.errors).toEqual([])
})
