import { describe, expect, test } from 'vitest'
import { input, limit, type Policy, Sluice, task } from '../../src/exports/index.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { eachLog } from '../cost/statement-log.ts'
import { expectSeconds, expectWithinBudget, noRefill, rate, Room } from './harness.ts'
import { sized } from '../sized.ts'

const MANY = sized(20_000, 100_000)

describe('a deep backlog of one key', () => {
  test('leaves 2,000 jobs of others their slots, and keeps its own pace', async () => {
    const room = new Room({ policy: rate(1, 1) })
    const slow = limit('slow', { rate: 1, per: '1s', burst: 1 })
    const roomy = limit('roomy', { rate: 10, per: '1s' })
    const seconds: Record<'slow' | 'others', number[]> = { slow: [], others: [] }
    const handler = (kind: 'slow' | 'others') => async (): Promise<void> => {
      seconds[kind].push(room.atUs / 1e6)
      await room.clock.sleep('10ms')
    }
    const backlog = task('work.slow', input<null>(), { limits: [slow.key('A')], run: handler('slow') })
    const others = task('work.others', input<{ key: string }>(), {
      limits: [roomy.by((item) => item.key)],
      run: handler('others'),
    })
    const unlimited = task('work.unlimited', input<null>(), { run: handler('others') })
    const engine = new Sluice({
      store: 'sqlite::memory:',
      tasks: [backlog, others, unlimited],
      clock: room.clock,
      logger: room.logger(),
    })
    await backlog.enqueueMany(Array.from({ length: MANY }, () => null))
    await engine.start()
    await others.enqueueMany(Array.from({ length: 1000 }, (_, i) => ({ key: `k${i % 100}` })))
    await unlimited.enqueueMany(Array.from({ length: 1000 }, () => null))
    await room.clock.advance('10s')
    expect(seconds.others.length).toBe(2000)
    // 2,000 jobs of 10 ms on 10 slots take 2 s, and the slow key takes a slot for 10 ms a second.
    expect(Math.max(...seconds.others)).toBeLessThanOrEqual(2.02)
    expect(seconds.slow.length).toBe(11)
    for (const [i, at] of seconds.slow.entries()) expect(at - i).toBeLessThanOrEqual(0.011)
    expectWithinBudget(
      rate(1, 1),
      seconds.slow.map((at) => ({ atUs: at * 1e6, weight: 1 })),
      'slow',
    )
    await room.stop(engine)
    expect(room.errors).toEqual([])
  })
})

describe('many keys', () => {
  const log = eachLog()

  test('that have run out, each with a job waiting, do not delay a fresh key, nor cost work while they wait', async () => {
    const room = new Room({ policy: noRefill(1) })
    const started: string[] = []
    const work = task('work.many', input<{ key: string }>(), {
      limits: [limit('many', noRefill(1)).by((item) => item.key)],
      run: ({ key }) => void started.push(`${key}@${room.atUs / 1e6}`),
    })
    const engine = new Sluice({
      store: 'sqlite::memory:',
      tasks: [work],
      clock: room.clock,
      logger: room.logger(),
      queues: { default: { concurrency: 1000 } },
    })
    await engine.start()
    log().clear()
    const keys = Array.from({ length: MANY }, (_, i) => ({ key: `k${i}` }))
    await work.enqueueMany(keys)
    await work.enqueueMany(keys)
    await room.clock.advance('1s')
    expect(started.length).toBe(MANY)
    await work.enqueue({ key: 'fresh' })
    await room.clock.advance('0s')
    expect(started.at(-1)).toBe('fresh@1')
    log().clear()
    await room.clock.advance('50s')
    expect(log().texts.length, 'statements of 50 s of waiting').toBeLessThan(MANY / 10)
    expect(started.length).toBe(MANY + 1)
    await room.stop(engine)
    expect(room.errors).toEqual([])
  })

  test('of one job each, all of them cold, are granted with few statements more than jobs without limits', async () => {
    const COUNT = 5000
    const clock = createManualClock()
    let started = 0
    const cold = limit('cold', { rate: 1, per: '1h' })
    const run = (): void => void started++
    const keyed = task('work.keyed', input<number>(), { limits: [cold.by((n) => n)], run })
    const free = task('work.free', input<number>(), { run })
    const engine = new Sluice({
      store: 'sqlite::memory:',
      tasks: [keyed, free],
      clock,
      queues: { default: { concurrency: 100 } },
    })
    await engine.start()
    const cost = async (of: typeof keyed, from: number): Promise<number> => {
      const before = started
      log().clear()
      await of.enqueueMany(Array.from({ length: COUNT }, (_, i) => from + i))
      await clock.advance(1)
      expect(started - before).toBe(COUNT)
      return log().texts.length
    }
    const unlimited = await cost(free, 0)
    const limited = await cost(keyed, 0)
    // bench/lane-grants.ts measures the pace on a file and a quiet machine.
    expect(unlimited / COUNT, 'statements of a job without limits').toBeLessThan(2)
    expect(limited / COUNT, 'statements of a job of a cold key').toBeLessThan(13)
    await engine.stop()
  })

  test('whose cold buckets eight engines race for give each exactly its burst', async () => {
    const room = await Room.open({
      policy: noRefill(5),
      file: true,
      engine: { queues: { default: { concurrency: 7 } } },
    })
    for (let i = 1; i < 8; i++) await room.engine()
    for (let i = 0; i < 1000; i++) void room.enqueue({ key: `k${i % 100}` }, {}, i % 2 === 0 ? room.first : room.last)
    await room.until(20, { look: false })
    const perKey = new Map<string, number>()
    for (const start of room.starts) perKey.set(start.key, (perKey.get(start.key) ?? 0) + 1)
    expect([...perKey.values()]).toEqual(Array.from({ length: 100 }, () => 5))
    for (const bucket of await room.last.limits.inspect('gate'))
      expect(bucket).toMatchObject({ available: 0, debt: 0, waiting: 5 })
    await room.finish({ waiting: 500 })
  })
})

describe('a full backlog', () => {
  const policies: [string, Policy, number][] = [0.7, 1, 1.5, 2, 3, 5, 8].map((period) => [
    `one per ${period} s`,
    rate(1, period),
    period,
  ])
  test.each(policies)('uses all of %s', async (_, policy, period) => {
    const room = await Room.open({ policy })
    await room.enqueueMany(100, { key: 'A' })
    await room.until(60)
    const grants = Math.min(100, Math.floor(60 / period) + 1)
    expectSeconds(
      room.secondsOf('A'),
      Array.from({ length: grants }, (_, i) => i * period),
    )
    await room.finish({ waiting: 100 - grants })
  })
})
