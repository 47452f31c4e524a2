// Limits that only a call lists: its first use in a process defines them, there and in the store.
import { describe, expect, test, vi } from 'vitest'
import { call, type EnqueueOptions, input, limit, RateLimited, type Task, task } from '../../src/exports/index.ts'
import { createStore } from '../../src/store/open.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness, record } from './engine-harness.ts'

const DAY_US = 86_400_000_000
const stores = await everyStore('limits that a call defines')
const errorOf = (work: Promise<unknown>): Promise<unknown> => work.catch((error: unknown) => error)

describe.each(stores)('a limit that only a call lists, on $name', (kind) => {
  const slow = (): ReturnType<typeof limit> => limit('slow', { rate: 1, per: '5s' })

  /** An engine that runs jobs, and others of its store that do not. No engine lists the limit. */
  async function engines() {
    const harness = createEngineHarness()
    const store = kind.create()
    const starts: string[] = []
    const define = (run: (name: string) => void) =>
      task('work.item', input<string>(), { run, limits: [limit('own', { rate: 9, per: '1s' })] })
    const work = define((name) => void starts.push(`${name}@${Math.floor(harness.at())}`))
    const runs = await harness.start({ store, tasks: [work] })
    const other = (): ReturnType<typeof define> => {
      const same = define(() => undefined)
      harness.create({ store, tasks: [same] })
      return same
    }
    return { ...harness, runs, work, other, starts }
  }

  test('is defined by its first use, and held by an engine that has never seen it', async () => {
    const { clock, runs, other, starts } = await engines()
    const unknown = record(runs, 'rate_limit.unknown')
    const work = other()
    for (const name of ['a', 'b', 'c']) await work.enqueue(name, { limits: [slow()] })
    await clock.advance('20s')
    expect(starts.map((each) => each.slice(0, 1))).toEqual(['a', 'b', 'c'])
    const [a = 0, b = 0, c = 0] = starts.map((each) => Number(each.slice(2)))
    expect([b - a, c - b]).toEqual([5, 5])
    expect((await runs.limits.list()).map(({ name }) => name).toSorted()).toEqual(['own', 'slow'])
    expect(unknown).toEqual([])
  })

  test('is one budget for several processes, each with an object of its own', async () => {
    const { clock, work, other, starts } = await engines()
    const all = [work, other(), other()]
    await Promise.all(all.map((each, i) => each.enqueue(`w${i}`, { limits: [slow()] })))
    await clock.advance('20s')
    expect(starts.map((each) => each.slice(2))).toEqual(['@0', '@5', '@10'])
  })

  test('is closed by its own pace, in an engine that has never seen it', async () => {
    const harness = createEngineHarness()
    const { clock, at } = harness
    const store = kind.create()
    const starts: number[] = []
    const define = (): Task<string, string, void> =>
      task('work.item', input<string>(), {
        run: async () => {
          starts.push(Math.floor(at()))
          await clock.sleep('1s')
          if (starts.length === 1) throw RateLimited.from(new Response('', { status: 429 }))
        },
      })
    await harness.start({ store, tasks: [define()] })
    const work = define()
    harness.create({ store, tasks: [work] })
    const api = limit('api', { window: 'sliding', max: 100, per: '40s' })
    await work.enqueue('a', { limits: [api] })
    await clock.advance('2m')
    const [first = 0, second = 0] = starts
    expect(second - first).toBe(41)
  })

  test('has keys and weights, and can be changed while it runs', async () => {
    const { clock, runs, work, starts } = await engines()
    const keyed = limit('keyed', { rate: 10, per: '10s' })
    const of = (key: string): EnqueueOptions<string> => ({ limits: [keyed.key(key, { weight: 10 })] })
    await work.enqueueMany(['a1', 'a2', 'b1'], (name) => of(name.slice(0, 1)))
    await clock.advance('5s')
    expect(starts.toSorted()).toEqual(['a1@0', 'b1@0'])
    await runs.limits.override('keyed', 'a', { rate: 100, burst: 100 })
    await clock.advance('5s')
    expect(starts.at(-1)).toMatch(/^a2@(5|6)/)
  })

  test('is defined by a flow and by a schedule, too', async () => {
    const { clock, runs, work, starts } = await engines()
    const pace = limit('pace', { rate: 1, per: '4s' })
    const late = limit('late', { rate: 1, per: '30s' })
    await runs.flows.start({ kind: 'group', jobs: ['a', 'b'].map((name) => call(work, name, { limits: [pace] })) })
    await clock.advance('5s')
    expect(starts).toEqual(['a@0', 'b@4'])
    await runs.schedule(work, 's', { every: '10s', immediately: true, limits: [late] })
    await clock.advance('35s')
    expect(starts.filter((each) => each.startsWith('s'))).toEqual(['s@5', 's@35'])
  })

  test.each<[string, (work: Awaited<ReturnType<typeof engines>>) => Promise<unknown>]>([
    [
      'a limit of its task',
      ({ work }) => work.enqueue('x', { limits: [slow(), limit('own', { rate: 8, per: '1s' })] }),
    ],
    ['an earlier use', ({ work }) => work.enqueue('x', { limits: [slow(), limit('used', { rate: 2, per: '1s' })] })],
    [
      'another in the same call',
      ({ work }) => work.enqueue('x', { limits: [slow(), limit('slow', { rate: 2, per: '5s' })] }),
    ],
    [
      'another call of the same enqueueMany',
      ({ work }) => work.enqueueMany(['x', 'y'], (_, at) => ({ limits: [limit('many', { rate: at + 1, per: '5s' })] })),
    ],
    [
      'another step of the same flow',
      ({ runs, work }) =>
        runs.flows.start({
          kind: 'chain',
          steps: [1, 2].map((rate) => call(work, 'x', { limits: [limit('steps', { rate, per: '5s' })] })),
        }),
    ],
  ])('is refused where it conflicts with %s, before anything is written', async (_, conflicting) => {
    const set = await engines()
    const { runs, work } = set
    await work.enqueue('first', { limits: [limit('used', { rate: 1, per: '1s' })] })
    expect(await errorOf(conflicting(set))).toMatchObject({ code: 'limit.conflict' })
    expect(await runs.jobs.list()).toHaveLength(1)
    expect((await runs.limits.list()).map(({ name }) => name).toSorted()).toEqual(['own', 'used'])
  })

  test('is not defined by a call that is refused', async () => {
    const { runs, work } = await engines()
    const refused = (options: EnqueueOptions<string>): Promise<unknown> => errorOf(work.enqueue('x', options))
    const small = limit('size', { rate: 1, per: '1s' })
    expect(await refused({ limits: [small.weight(5)] })).toMatchObject({ code: 'limit.weight.above_burst' })
    expect(await refused({ limits: [small], delay: -1 })).toMatchObject({ code: 'duration.invalid' })
    expect(await refused({ limits: [small], fairKey: {} as never })).toMatchObject({
      code: expect.any(String) as string,
    })
    await work.enqueue('x', { limits: [limit('size', { rate: 9, per: '1s' }).weight(5)] })
    expect((await runs.limits.list()).find(({ name }) => name === 'size')?.policy).toMatchObject({ rule: { rate: 9 } })
  })

  test('is stored once in a process, however many calls use it at the same time', async () => {
    const harness = createEngineHarness()
    const retention = { completedUs: DAY_US, cancelledUs: DAY_US, discardedUs: DAY_US }
    const store = await createStore(kind.create(), { clock: harness.clock, durability: 'process', retention })
    const work = task('work.item', input<string>(), { run: () => undefined })
    const engine = harness.create({ store, tasks: [work] })
    await engine.limits.list()
    const defined = vi.spyOn(store, 'define')
    const crm = limit('crm', { rate: 1, per: '1s' })
    await Promise.all(Array.from({ length: 20 }, (_, n) => work.enqueue(`x${n}`, { limits: [crm] })))
    await work.enqueue('y', { limits: [limit('crm', { rate: 1, per: '1s' })] })
    expect(defined.mock.calls.map(([limits]) => limits.map(({ name }) => name))).toEqual([['crm']])
    expect(await engine.jobs.list()).toHaveLength(21)
  })
})
