import { describe, expect, test } from 'vitest'
import { input, limit, Sluice, task } from '../../src/exports/index.ts'
import type { NewJob } from '../../src/jobs/job.ts'
import { createStore } from '../../src/store/open.ts'
import { record, createEngineHarness } from '../engine/engine-harness.ts'
import { every, expectSeconds, expectWithinBudget, rate, Room, times } from './harness.ts'

const DAY_US = 86_400_000_000
/** Of an engine that defines limits, and does not run the room's task. */
const ELSEWHERE = { tasks: [], queues: { elsewhere: {} } }

describe('a limit that changes while jobs wait', () => {
  test('slows down in the middle of an interval: the level carries', async () => {
    const room = await Room.open({ policy: rate(1, 2) })
    await room.enqueueMany(5, { key: 'A' })
    await room.until(5)
    await room.first.limits.override(room.gate, undefined, { per: '10s' }, { by: 'ann', reason: 'they asked for it' })
    await room.until(25)
    expectSeconds(room.secondsOf('A'), [0, 2, 4, 10, 20])
    expect(room.errors).toEqual([])
  })

  test('the same, by a newer deployment beside the old one', async () => {
    const room = await Room.open({ policy: rate(1, 2), file: true })
    await room.enqueueMany(5, { key: 'A' })
    await room.until(5)
    const newer = await room.engine({ ...ELSEWHERE, limits: [limit('gate', rate(1, 10))], started: false })
    expect(await newer.limits.list()).toMatchObject([{ name: 'gate', policy: { rule: { periodUs: 10_000_000 } } }])
    await room.until(25, { look: false })
    expectSeconds(room.secondsOf('A'), [0, 2, 4, 10, 20])
  })

  test('a burst lowered and raised again gives the refill back, and no more', async () => {
    const room = await Room.open({ policy: rate(10, 10) })
    await room.enqueueMany(1, { key: 'A' })
    await room.until(0)
    await room.first.limits.override('gate', 'A', { burst: 4 })
    await room.enqueueMany(3, { key: 'A' })
    await room.until(0)
    expect(room.secondsOf('A')).toEqual(times(4, 0))
    // One is left of four: raised to ten, there is that one, and one more for every second.
    await room.first.limits.clearOverride('gate', 'A')
    await room.enqueueMany(4, { key: 'A' })
    await room.until(10)
    expectSeconds(room.secondsOf('A'), [...times(5, 0), 1, 2, 3])
  })

  test('ten times the rate is in force at once, whatever had been computed before', async () => {
    const room = await Room.open({ policy: rate(1, 60) })
    const [, second] = await room.enqueueMany(5, { key: 'A' })
    await room.until(1)
    expect(await room.first.jobs.explain(second!.id)).toMatchObject({ until: room.wall(60) })
    await room.first.limits.override('gate', undefined, { rate: 10, burst: 1 })
    expect((await room.first.limits.inspect('gate', 'A'))[0]).toMatchObject({ waiting: 4, capacity: 1 })
    await room.until(30)
    // A sixtieth of a unit is there after one second; the rest comes ten times as fast.
    expectSeconds(room.secondsOf('A'), [0, 6.9, 12.9, 18.9, 24.9])
  })

  test('a hundred that wait at ten a minute are through in two seconds once it is a hundred a second', async () => {
    const room = await Room.open({ policy: rate(10, 60) })
    await room.enqueueMany(110, { key: 'A' })
    await room.until(3)
    expect(room.starts).toHaveLength(10)
    await room.first.limits.override('gate', undefined, { rate: 100, per: '1s' })
    await room.until(5)
    expect(room.starts).toHaveLength(110)
    expectWithinBudget(rate(100, 1), room.starts, 'A')
  })

  test('lowered to one a second, the next starts keep to it', async () => {
    const room = await Room.open({ policy: rate(100, 1) })
    await room.enqueueMany(150, { key: 'A' })
    await room.until(0)
    expect(room.starts).toHaveLength(100)
    await room.first.limits.override('gate', 'A', { rate: 1 })
    await room.until(10)
    expectSeconds(room.secondsOf('A').slice(100), every(1, 1, 10))
  })

  test('an override ends by itself at the instant, without any call', async () => {
    const room = await Room.open({ policy: rate(1, 1) })
    await room.enqueueMany(8, { key: 'A' })
    await room.until(1.5)
    await room.first.limits.override('gate', 'A', { per: '1h' }, { until: '3s', by: 'ann' })
    await room.until(10)
    // Half a unit at 1.5 s, a twelve-hundredth more until 4.5 s, then one per second again.
    expectSeconds(room.secondsOf('A').slice(0, 5), [0, 1, 4.999167, 5.999167, 6.999167])
    expect(await room.first.limits.overrides()).toMatchObject([
      { key: 'A', kind: 'override', change: { per: '1h' }, by: 'ann', ended: room.wall(4.5), endedBy: null },
    ])
  })

  test('it survives a restart, and ends while no process runs', async () => {
    const room = await Room.open({ policy: rate(1, 1), file: true })
    await room.enqueueMany(4, { key: 'A' })
    await room.until(0)
    await room.first.limits.override('gate', 'A', { per: '10s' }, { until: room.wall(20) })
    await room.halt()
    await room.engine()
    await room.until(12)
    expectSeconds(room.secondsOf('A'), [0, 10])
    await room.halt()
    await room.until(19, { look: false })
    await room.engine()
    await room.until(25)
    // 0.9 of a unit at 19 s, one at 20 s by the last of the override.
    expectSeconds(room.secondsOf('A'), [0, 10, 20, 21])
  })
})

describe('a pause', () => {
  test('of one key holds that key alone, and a resume lets it go at once', async () => {
    const room = await Room.open({ policy: rate(2, 1) })
    await room.first.limits.pause('gate', 'A', { by: 'ann', reason: 'their outage' })
    const [held] = await room.enqueueMany(2, { key: 'A' })
    await room.enqueueMany(4, { key: 'B' })
    await room.until(60, { look: false })
    expectSeconds(room.secondsOf('B'), [0, 0, 0.5, 1])
    expect(room.secondsOf('A')).toEqual([])
    expect((await room.first.jobs.explain(held!.id)).words).toContain('paused by ann (their outage)')
    expect(await room.first.limits.list()).toMatchObject([{ overrides: [{ kind: 'pause', key: 'A', by: 'ann' }] }])
    expect(await room.first.limits.resume('gate', 'A', { by: 'bob' })).toBe(true)
    await room.until(61)
    expect(room.secondsOf('A')).toEqual([60, 60])
    expect(await room.first.limits.overrides('gate')).toMatchObject([{ kind: 'pause', endedBy: 'bob' }])
  })

  test('of the limit holds every key, also those that come later, until its time is over', async () => {
    const room = await Room.open({ policy: rate(2, 1) })
    await room.first.limits.pause(room.gate, undefined, { until: '30s' })
    for (const key of ['A', 'B', 'C']) await room.enqueueMany(1, { key })
    await room.until(29.999, { look: false })
    expect(room.starts).toEqual([])
    await room.until(30)
    expect(room.starts.map((start) => start.atUs)).toEqual(times(3, 30_000_000))
  })
})

describe('a penalty by hand', () => {
  test('closes one bucket until then, and it resumes at the rate without a burst', async () => {
    const room = await Room.open({ policy: rate(5, 5) })
    const events = record(room.first, 'rate_limit.dynamic_adjusted')
    await room.first.limits.penalize('gate', 'A', '10s')
    await room.enqueueMany(3, { key: 'A' })
    await room.enqueueMany(2, { key: 'B' })
    await room.until(12)
    expectSeconds(room.secondsOf('A'), [10, 11, 12])
    expect(room.secondsOf('B')).toEqual([0, 0])
    expect(events).toMatchObject([{ event: { limit: 'gate', key: 'A', until: room.wall(10) } }])
  })
})

test('of jobs without a key, the bucket that they share is changed as any other', async () => {
  const room = await Room.open({ policy: { ...rate(1, 1), onMissingKey: 'shared' } })
  await room.first.limits.override('gate', '', { per: '3s' })
  await room.enqueueMany(2, { key: null })
  await room.enqueueMany(2, { key: 'A' })
  await room.until(5)
  expectSeconds(room.secondsOf(''), [0, 3])
  expectSeconds(room.secondsOf('A'), [0, 1])
})

describe('what is refused', () => {
  test('changes nothing, and says what is wrong', async () => {
    const room = await Room.open({ policy: rate(5, 5) })
    const { limits } = room.first
    const codeOf = (call: Promise<unknown>): Promise<string> =>
      call.then(
        () => 'done',
        (error: unknown) => (error as { code: string }).code,
      )
    expect(await codeOf(limits.override('nowhere', undefined, { rate: 5 }))).toBe('limit.unknown')
    expect(await codeOf(limits.pause('nowhere'))).toBe('limit.unknown')
    expect(await codeOf(limits.penalize('nowhere', undefined, '1s'))).toBe('limit.unknown')
    expect(await codeOf(limits.overrides('nowhere'))).toBe('limit.unknown')
    expect(await codeOf(limits.override('gate', undefined, { max: 5 }))).toBe('policy.invalid')
    expect(await codeOf(limits.override('gate', undefined, { rate: -1 }))).toBe('policy.invalid')
    expect(await codeOf(limits.override('gate', undefined, null as unknown as object))).toBe('policy.invalid')
    expect(await codeOf(limits.override('gate', Number.NaN, { rate: 5 }))).toBe('limit.key.invalid')
    expect(await codeOf(limits.override('gate', 'A', { rate: 5 }, { until: new Date(0) }))).toBe('option.invalid')
    expect(await codeOf(limits.override('gate', 'A', { rate: 5 }, { until: new Date(Number.NaN) }))).toBe(
      'option.invalid',
    )
    expect(await codeOf(limits.override('gate', 'A', { rate: 5 }, { until: 0 }))).toBe('option.invalid')
    expect(await codeOf(limits.pause('gate', 'A', { by: 'x'.repeat(256) }))).toBe('option.invalid')
    expect(await codeOf(limits.penalize('gate', 'A', 'x' as '1s'))).toBe('duration.invalid')
    expect(await limits.overrides()).toEqual([])
    expect(await limits.resume('gate')).toBe(false)
    expect(await limits.clearOverride('gate', 7)).toBe(false)
  })
})

describe('definitions of several deployments', () => {
  test('of one version: the later start decides, and the earlier process goes on under it without taking it back', async () => {
    const room = await Room.open({ policy: rate(1, 10), file: true })
    await room.enqueueMany(8, { key: 'A' })
    await room.until(1)
    const newer = await room.engine({ ...ELSEWHERE, limits: [limit('gate', rate(1, 2))] })
    await room.until(100, { look: false })
    // A tenth at 1 s, the rest at one per two seconds, no matter how both processes use it meanwhile.
    expectSeconds(room.secondsOf('A'), [0, ...every(2, 2.8, 14.8)])
    for (const engine of [room.first, newer])
      expect(await engine.limits.list()).toMatchObject([{ policy: { rule: { periodUs: 2_000_000 } } }])
  })

  test('of different versions: the higher one decides, in whatever order they start', async () => {
    const room = await Room.open({ policy: { ...rate(1, 2), version: 2 }, file: true })
    await room.enqueueMany(4, { key: 'A' })
    for (const version of [1, 0]) {
      const older = await room.engine({ ...ELSEWHERE, limits: [limit('gate', { ...rate(1, 100), version })] })
      expect(await older.limits.list()).toMatchObject([{ version: 2, policy: { rule: { periodUs: 2_000_000 } } }])
    }
    await room.until(10, { look: false })
    expectSeconds(room.secondsOf('A'), [0, 2, 4, 6])
  })

  test('two that start again and again with the same definition write it once', async () => {
    const room = await Room.open({ policy: rate(1, 10), file: true })
    await room.enqueueMany(3, { key: 'A' })
    await room.until(5)
    for (let i = 0; i < 5; i++) await room.halt(await room.engine())
    await room.until(25, { look: false })
    expectSeconds(room.secondsOf('A'), [0, 10, 20])
  })
})

describe('a limit that two tasks share by its name', () => {
  const openai = { rate: 20, per: '1s' } as const

  test('is one budget for both, and other names do not interfere', async () => {
    const harness = createEngineHarness()
    const starts: number[] = []
    const others: number[] = []
    const run = (): void => void starts.push(harness.clock.monotonicUs())
    const a = task('flow.a', { limits: [limit('openai', openai)], run })
    const b = task('flow.b', { limits: [limit('openai', openai)], run })
    const c = task('flow.c', {
      limits: [{ rate: 20, per: '1s' }],
      run: () => void others.push(harness.clock.monotonicUs()),
    })
    await harness.start({ tasks: [a, b, c], queues: { default: { concurrency: 100 } } })
    for (let i = 0; i < 50; i++) await Promise.all([a.enqueue(), b.enqueue()])
    for (let i = 0; i < 20; i++) await c.enqueue()
    const t0 = harness.clock.monotonicUs()
    await harness.clock.advance('4s')
    expect(starts.map((us) => us - t0)).toEqual([
      ...times(20, 0),
      ...every(0.05, 0.05, 4).map((s) => Math.round(s * 1e6)),
    ])
    expect(others.map((us) => us - t0)).toEqual(times(20, 0))
  })

  test('and that they define differently is refused, naming both definitions', () => {
    const one = task('flow.a', { limits: [limit('openai', openai)], run: () => 1 })
    const two = task('flow.b', { limits: [limit('openai', { rate: 30, per: '1s' })], run: () => 1 })
    expect(() => new Sluice({ store: 'sqlite::memory:', tasks: [one, two] })).toThrow(
      expect.objectContaining({
        code: 'limit.conflict',
        message: expect.stringMatching(/openai.*"rate":20.*"rate":30/) as string,
      }) as Error,
    )
  })
})

test('jobs that name an undefined limit wait, delay no other job, say so once, and run when it is defined', async () => {
  const harness = createEngineHarness()
  const ran: string[] = []
  const work = task('work.item', input<{ name: string }>(), {
    run: ({ name }) => void ran.push(`${name}@${harness.at()}`),
  })
  const retention = { completedUs: DAY_US, cancelledUs: DAY_US, discardedUs: DAY_US }
  const store = await createStore('sqlite::memory:', { clock: harness.clock, durability: 'process', retention })
  const engine = harness.create({ store, tasks: [work] })
  const events = record(engine, 'rate_limit.unknown', 'rate_limit.exceeded')
  const job = (name: string, keys: readonly string[]): NewJob => ({
    id: name,
    task: 'work.item',
    queue: 'default',
    priority: 0,
    input: JSON.stringify({ name }),
    uses: keys.map((key) => ({ limit: 'later', key, weight: 1 })),
    maxAttempts: 3,
    runAtMs: null,
    expiresAtMs: null,
    unique: null,
    extra: null,
  })
  await engine.start()
  const started = harness.at()
  const tenants = Array.from({ length: 10 }, (_, i) => job(`job-${i}`, [i < 6 ? 'A' : 'B']))
  await store.enqueue(tenants)
  await work.enqueue({ name: 'plain' })
  await harness.clock.advance('30s')
  expect(ran).toEqual([`plain@${started}`])
  expect(events).toEqual([
    { name: 'rate_limit.unknown', event: { limit: 'later', key: 'A', queue: 'default', task: 'work.item' } },
    { name: 'rate_limit.unknown', event: { limit: 'later', key: 'B', queue: 'default', task: 'work.item' } },
  ])
  await store.define([
    {
      name: 'later',
      policy: { rule: null, concurrency: 100, onLimit: 'wait', maxWaitUs: null, retries: 'charge' },
      version: 0,
    },
  ])
  await work.enqueue({ name: 'bell' })
  await harness.clock.advance('1s')
  expect(ran).toHaveLength(12)
})
