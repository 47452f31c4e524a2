import { describe, expect, test } from 'vitest'
import { forecast, input, limit, type Sluice, task } from '../../src/exports/index.ts'
import { createEngineHarness, type EngineHarness } from './engine-harness.ts'

const gate = limit('gate', { rate: 1, per: '1s' })
const all = limit('all', { rate: 4, per: '1s', burst: 1 })
const work = task('work', input<{ key: string; weight?: number }>(), {
  limits: [gate.by((call) => call.key), all],
  run: () => undefined,
})

/** Ten jobs of one key and two of another, of which one of each has started. */
async function backlog(harness: EngineHarness): Promise<Sluice> {
  const engine = await harness.start({ tasks: [work] })
  const calls = [
    ...Array.from({ length: 11 }, () => ({ key: 'a' })),
    ...Array.from({ length: 3 }, () => ({ key: 'b' })),
  ]
  await work.enqueueMany(calls)
  await harness.clock.advance('250ms')
  return engine
}

describe('a forecast of what waits', () => {
  test('starts from the buckets as they are, and is what happens when nothing else holds the jobs', async () => {
    const harness = createEngineHarness()
    const engine = await backlog(harness)
    const told = await engine.forecast(gate)
    const further = [expect.stringContaining('need further limits')]
    expect(told).toMatchObject({ jobs: 12, keys: 2, exact: false, caveats: further, drainMs: 9750 })
    expect(told.doubled.drainMs).toBeLessThan(5000)
    await harness.clock.advance(9749)
    expect(await engine.jobs.list({ states: ['available'] })).toHaveLength(1)
    await harness.clock.advance(1)
    expect(await engine.jobs.list({ states: ['available'] })).toEqual([])
  })

  test('is of one key, of another policy, with a second limit, or of another backlog', async () => {
    const harness = createEngineHarness()
    const engine = await backlog(harness)
    expect(await engine.forecast('gate', { key: 'b' })).toMatchObject({ jobs: 2, keys: 1, drainMs: 2000 })
    expect(await engine.forecast('gate', { key: 'nobody' })).toMatchObject({ jobs: 0, keys: 0, drainMs: 0 })
    expect((await engine.forecast(gate, { policy: { rate: 10, per: '1s' } })).drainMs).toBeLessThan(1000)
    const shared = await engine.forecast(gate, { shared: all, policy: { rate: 100, per: '1s' } })
    expect(shared).toMatchObject({ jobs: 12, exact: false, drainMs: 3000 })
    expect(await engine.forecast(gate, { backlog: { count: 100, keys: 10 } })).toEqual(
      forecast({ rate: 1, per: '1s' }, { backlog: { count: 100, keys: 10 } }),
    )
    expect(shared.caveats.join()).not.toContain('further limits')
    await expect(engine.forecast('nothing')).rejects.toMatchObject({ code: 'limit.unknown' })
    await expect(engine.forecast(gate, { shared: 'nothing' })).rejects.toMatchObject({ code: 'limit.unknown' })
  })
})

describe('the count of who waits where', () => {
  test('has a row for each queue and key, the longest first, and follows every start', async () => {
    const harness = createEngineHarness()
    const slow = limit('slow', { rate: 1, per: '10s' })
    const each = task('each', input<string>(), { limits: [slow.by((key) => key)], run: () => undefined })
    const engine = await harness.start({ tasks: [each], queues: { default: {}, exports: {} } })
    await each.enqueueMany(['A', 'A', 'A'])
    await each.enqueueMany(['B', 'B'], { queue: 'exports' })
    await harness.clock.advance('1s')
    const next = new Date('2026-01-01T00:00:10Z')
    expect(await engine.limits.waiting()).toEqual({
      waiting: 3,
      rows: [
        { queue: 'default', limit: 'slow', key: 'A', waiting: 2, nextStart: next },
        { queue: 'exports', limit: 'slow', key: 'B', waiting: 1, nextStart: next },
      ],
    })
    const waiting = await engine.jobs.list({ states: ['available'] })
    expect(waiting.map(({ throttledUntil }) => throttledUntil)).toEqual([next, next, next])
    expect((await engine.limits.waiting({ rows: 1 })).rows).toHaveLength(1)
    await harness.clock.advance('10s')
    expect(await engine.limits.waiting()).toMatchObject({
      waiting: 1,
      rows: [{ queue: 'default', key: 'A', waiting: 1 }],
    })
    await harness.clock.advance('10s')
    expect(await engine.limits.waiting()).toEqual({ waiting: 0, rows: [] })
    await expect(engine.limits.waiting({ rows: 0 })).rejects.toMatchObject({ code: 'option.invalid' })
  })
})

describe('an explanation in words', () => {
  test('says the place in the line, when it starts, and when it is given up', async () => {
    const harness = createEngineHarness()
    const lone = limit('lone', { rate: 1, per: '10s' })
    const each = task('each', { limits: [lone], run: () => undefined })
    const engine = await harness.start({ tasks: [each], queues: { default: {}, exports: {} } })
    const [, , third] = await each.enqueueMany([undefined, undefined, undefined])
    await each.enqueue(undefined, { queue: 'exports', expiresAt: new Date('2026-01-01T01:00:00Z') })
    const later = await each.enqueue(undefined, { delay: '1m' })
    await harness.clock.advance('1s')
    const found = await engine.jobs.explain(third!.id)
    expect(found).toMatchObject({ position: 2, linePosition: 3, served: true, exact: true, givenUpAt: null })
    expect(found.words).toBe(
      'The job waits for the budget of lone, whose next start is at 2026-01-01T00:00:10.000Z, at position 3; it should start at 2026-01-01T00:00:30.000Z.',
    )
    const [mortal] = await engine.jobs.list({ queue: 'exports' })
    expect((await engine.jobs.explain(mortal!.id)).words).toContain(
      'discarded unless it starts by 2026-01-01T01:00:00.000Z',
    )
    expect((await engine.jobs.explain(later.id)).words).toBe('The job is scheduled for 2026-01-01T00:01:00.000Z.')
  })

  test('tells of a pause of a limit that the job does not wait for yet', async () => {
    const harness = createEngineHarness()
    const lone = limit('lone', { rate: 1, per: '10s' })
    const crm = limit('crm', { concurrency: 5 })
    const each = task('each', input<string>(), { limits: [lone, crm.by((key) => key)], run: () => undefined })
    const engine = await harness.start({ tasks: [each] })
    await each.enqueue('acme')
    const second = await each.enqueue('acme')
    await harness.clock.advance('1s')
    await engine.limits.pause('crm', 'acme', { by: 'ann', reason: 'an audit' })
    const found = await engine.jobs.explain(second.id)
    expect(found).toMatchObject({ waitsOn: { limit: 'lone' }, expectedStart: null })
    expect(found.overrides).toMatchObject([{ limit: 'crm', key: 'acme', kind: 'pause' }])
    expect(found.words).toBe(
      'The job waits for the budget of lone, whose next start is at 2026-01-01T00:00:10.000Z, at position 1. Its limit crm for acme is paused by ann (an audit) until it is resumed.',
    )
    await engine.limits.pause('lone', undefined, { until: '1h' })
    await harness.clock.advance('10s')
    expect((await engine.jobs.explain(second.id)).words).toBe(
      'The job waits for the budget of lone, which is paused until 2026-01-01T01:00:01.000Z, at position 1. Its limit crm for acme is paused by ann (an audit) until it is resumed.',
    )
  })

  test('tells each pause of a limit once, of its queue, of a worker scope and of a rescheduled job too', async () => {
    const harness = createEngineHarness()
    const lone = limit('lone', { rate: 1, per: '10s', scope: 'worker' })
    const crm = limit('crm', { concurrency: 5 })
    const later = limit('later', { rate: 1, per: '10s', onLimit: 'reschedule' })
    const whole = limit('whole', { rate: 100, per: '1s' })
    const pair = { a: 'acme', b: 'bolt' }
    const keyed = [crm.by((call: typeof pair) => call.a), crm.by((call: typeof pair) => call.b)]
    const spread = task('spread', input<typeof pair>(), { limits: [lone, ...keyed], run: () => undefined })
    const moved = task('moved', input<typeof pair>(), { limits: [later, ...keyed], run: () => undefined })
    const mail = task('mail', { queue: 'mail', run: () => undefined })
    const queues = { default: {}, mail: { limits: [whole] } }
    const engine = await harness.start({ tasks: [spread, moved, mail], queues })
    const jobs: string[] = []
    for (const each of [spread, moved]) for (let n = 0; n < 2; n++) jobs.push((await each.enqueue(pair)).id)
    await harness.clock.advance('1s')
    await engine.limits.pause('crm')
    await engine.limits.pause('whole')
    const { id } = await mail.enqueue()
    await harness.clock.advance('1s')
    const [, ofWorker, , rescheduled] = await Promise.all(jobs.map((each) => engine.jobs.explain(each)))
    const said = ' Its limit crm is paused until it is resumed.'
    for (const found of [ofWorker, rescheduled]) {
      expect(found?.overrides).toMatchObject([{ limit: 'crm', key: null, kind: 'pause' }])
      expect(found?.words.split(said)).toHaveLength(2)
      expect(found?.words).not.toContain('rescheduled to its expected start')
    }
    const ofQueue = await engine.jobs.explain(id)
    expect(ofQueue.expectedStart).toBeNull()
    expect(ofQueue.words).toContain(' Its limit whole is paused until it is resumed.')
    await engine.limits.pause('lone', undefined, { by: 'bob' })
    expect((await engine.jobs.explain(jobs[1]!)).words).toContain('lone, which is paused by bob until it is resumed')
  })

  test('names who made the pause that ends last', async () => {
    const harness = createEngineHarness()
    const crm = limit('crm', { concurrency: 1 })
    const each = task('each', { limits: [crm.by(() => 'x')], run: () => undefined })
    const engine = await harness.start({ tasks: [each] })
    await engine.limits.pause('crm', undefined, { by: 'ann', until: '5s' })
    await engine.limits.pause('crm', 'x', { by: 'bob', until: '1h' })
    const { id } = await each.enqueue()
    await harness.clock.advance('1s')
    const { words } = await engine.jobs.explain(id)
    expect(words).toContain('crm for x, which is paused by bob until 2026-01-01T01:00:00.000Z')
  })

  test('promises no exact start where the queue has a limit of its own', async () => {
    const harness = createEngineHarness()
    const lone = limit('lone', { rate: 1, per: '10s' })
    const whole = limit('whole', { rate: 1, per: '1m' })
    const each = task('each', { limits: [lone], run: () => undefined })
    const engine = await harness.start({ tasks: [each], queues: { default: { limits: [whole] } } })
    await each.enqueue()
    const second = await each.enqueue()
    await harness.clock.advance('1s')
    expect(await engine.jobs.explain(second.id)).toMatchObject({ exact: false })
  })

  test('nor where a budget that it needs is spent by another queue as a whole', async () => {
    const harness = createEngineHarness()
    const shared = limit('shared', { rate: 1, per: '10s' })
    const each = task('each', { limits: [shared], run: () => undefined })
    const free = task('free', { queue: 'other', run: () => undefined })
    const engine = await harness.start({ tasks: [each, free], queues: { default: {}, other: { limits: [shared] } } })
    await each.enqueue()
    const second = await each.enqueue()
    await harness.clock.advance('1s')
    await free.enqueue()
    expect(await engine.jobs.explain(second.id)).toMatchObject({ exact: false })
  })
})
