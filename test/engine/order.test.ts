import { describe, expect, test } from 'vitest'
import { input, limit, type SluiceOptions, task } from '../../src/exports/index.ts'
import { createEngineHarness, type EngineHarness } from './engine-harness.ts'

interface Item {
  readonly name: string
  readonly key?: string
}

/** A queue with one slot, in which every run takes a second: what starts when is a matter of order alone. */
function oneSlot(options: Partial<SluiceOptions> = {}) {
  const harness: EngineHarness = createEngineHarness()
  const story: string[] = []
  const roomy = limit('roomy', { rate: 1000, per: '1s' })
  const run = async ({ name }: Item): Promise<void> => {
    story.push(name)
    await harness.clock.sleep('1s')
  }
  const keyed = task('work.keyed', input<Item>(), { limits: [roomy.by((item) => item.key)], run })
  const free = task('work.free', input<Item>(), { run })
  const engine = harness.create({ tasks: [keyed, free], queues: { default: { concurrency: 1 } }, ...options })
  return { ...harness, story, keyed, free, engine, roomy }
}

describe('jobs of a queue start', () => {
  test('by priority, then in the order of their arrival', async () => {
    const { clock, story, free, engine } = oneSlot()
    await free.enqueue({ name: 'a' })
    await free.enqueue({ name: 'low' }, { priority: -100 })
    await free.enqueue({ name: 'b' })
    await free.enqueue({ name: 'high1' }, { priority: 100 })
    await free.enqueue({ name: 'mid' }, { priority: 1 })
    await free.enqueue({ name: 'high2' }, { priority: 100 })
    await engine.start()
    await clock.advance('10s')
    expect(story).toEqual(['high1', 'high2', 'mid', 'a', 'b', 'low'])
  })

  test('by priority across limits', async () => {
    const { clock, story, keyed, free, engine } = oneSlot()
    await keyed.enqueue({ name: 'keyed', key: 'A' }, { priority: 1 })
    await free.enqueue({ name: 'free' }, { priority: 2 })
    await keyed.enqueue({ name: 'urgent', key: 'B' }, { priority: 3 })
    await free.enqueue({ name: 'last' })
    await engine.start()
    await clock.advance('10s')
    expect(story).toEqual(['urgent', 'free', 'keyed', 'last'])
  })

  test('key by key in turn, however deep one key’s backlog', async () => {
    const { clock, story, keyed, engine } = oneSlot()
    for (let i = 1; i <= 6; i++) await keyed.enqueue({ name: `A${i}`, key: 'A' })
    for (let i = 1; i <= 2; i++) await keyed.enqueue({ name: `B${i}`, key: 'B' })
    for (let i = 1; i <= 2; i++) await keyed.enqueue({ name: `C${i}`, key: 'C' })
    await engine.start()
    await clock.advance('20s')
    for (const key of ['A', 'B', 'C'])
      expect(story.slice(0, 6).filter((name) => name.startsWith(key)).length, `starts of ${key}`).toBe(2)
    expect(story.slice(6)).toEqual(['A3', 'A4', 'A5', 'A6'])
    for (const key of ['A', 'B', 'C']) {
      const own = story.filter((name) => name.startsWith(key))
      expect(own).toEqual([...own].sort())
    }
  })

  test('with jobs that need no limit getting half of the slots at least, and keyed ones the rest', async () => {
    const { clock, story, keyed, free, engine } = oneSlot()
    for (let i = 0; i < 10; i++) for (const key of ['A', 'B', 'C']) await keyed.enqueue({ name: 'keyed', key })
    for (let i = 0; i < 10; i++) await free.enqueue({ name: 'free' })
    await engine.start()
    await clock.advance('60s')
    const early = story.slice(0, 20)
    expect(early.filter((name) => name === 'free').length).toBe(10)
    for (let i = 2; i < early.length; i++) expect(early.slice(i - 2, i + 1)).not.toEqual([early[i], early[i], early[i]])
    expect(story.length).toBe(40)
  })

  test('with an urgent late comer going before all that wait', async () => {
    const { clock, story, keyed, engine } = oneSlot()
    await engine.start()
    for (let i = 1; i <= 5; i++) await keyed.enqueue({ name: `A${i}`, key: 'A' })
    await clock.advance('1500ms')
    await keyed.enqueue({ name: 'urgent', key: 'A' }, { priority: 50 })
    await clock.advance('10s')
    expect(story).toEqual(['A1', 'A2', 'urgent', 'A3', 'A4', 'A5'])
  })
})

describe('queues', () => {
  test('have slots of their own', async () => {
    const { clock, at, start } = createEngineHarness()
    const story: string[] = []
    const work = task('work.item', input<string>(), {
      run: async (name) => {
        story.push(`${name}@${at()}`)
        await clock.sleep('10s')
      },
    })
    await start({ tasks: [work], queues: { default: { concurrency: 1 }, mail: { concurrency: 2 } } })
    for (const name of ['a', 'b']) await work.enqueue(name)
    for (const name of ['m1', 'm2', 'm3']) await work.enqueue(name, { queue: 'mail' })
    await clock.advance('15s')
    expect(story).toEqual(['a@0', 'm1@0', 'm2@0', 'b@10', 'm3@10'])
  })

  test('that this process does not serve keep their jobs', async () => {
    const { clock, start } = createEngineHarness()
    let runs = 0
    const work = task('work.item', { run: () => void runs++ })
    const engine = await start({ tasks: [work] })
    const job = await work.enqueue(undefined, { queue: 'elsewhere' })
    await clock.advance('1h')
    expect(runs).toBe(0)
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'available', queue: 'elsewhere' })
  })

  test('with a limit of their own sleep as a whole when it is used up, and others do not', async () => {
    const { clock, at, start } = createEngineHarness()
    const story: string[] = []
    const run = (name: string): void => void story.push(`${name}@${at()}`)
    const plain = task('work.plain', input<string>(), { run })
    const keyed = task('work.keyed', input<string>(), {
      limits: [limit('roomy', { rate: 100, per: '1s' }).by((name) => name)],
      run,
    })
    const engine = await start({
      tasks: [plain, keyed],
      queues: {
        default: { limits: [limit('queue', { rate: 2, per: '10s' })] },
        other: {},
      },
    })
    await plain.enqueue('p1')
    await keyed.enqueue('k1')
    await keyed.enqueue('k2')
    await plain.enqueue('p2')
    await keyed.enqueue('o1', { queue: 'other' })
    await clock.advance('1s')
    expect(story).toEqual(['p1@0', 'k1@0', 'o1@0'])
    // The keyed one that sleeps with its queue has spent nothing of its own limit.
    expect((await engine.limits.inspect('roomy', 'k2'))[0]).toMatchObject({ available: 100 })
    await clock.advance('30s')
    expect(story.slice(3).map((line) => line.split('@')[1])).toEqual(['5', '10'])
  })

  test('with a limit by the job’s input hold each key to it', async () => {
    const { clock, at, start } = createEngineHarness()
    const story: string[] = []
    const work = task('work.item', input<{ tenant: string }>(), {
      run: ({ tenant }) => void story.push(`${tenant}@${at()}`),
    })
    const perTenant = limit('per-tenant', { rate: 1, per: '10s' })
    await start({ tasks: [work], queues: { default: { limits: [perTenant.by('tenant')] }, other: {} } })
    for (const tenant of ['a', 'a', 'b']) await work.enqueue({ tenant })
    await work.enqueue({ tenant: 'a' }, { queue: 'other' })
    await clock.advance('15s')
    expect(story).toEqual(['a@0', 'b@0', 'a@0', 'a@10'])
  })
})
