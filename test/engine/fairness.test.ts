import { describe, expect, test } from 'vitest'
import { input, limit, type SluiceOptions, task } from '../../src/exports/index.ts'
import { createEngineHarness, type EngineHarness } from './engine-harness.ts'

interface Item {
  readonly name: string
  readonly tenant?: { readonly id: string | number | null; readonly share?: number }
}

/** A queue with one slot, in which every run takes a second: what starts when is a matter of order alone. */
function oneSlot(options: Partial<SluiceOptions> = {}) {
  const harness: EngineHarness = createEngineHarness()
  const story: string[] = []
  const run = async ({ name }: Item): Promise<void> => {
    story.push(name)
    await harness.clock.sleep('1s')
  }
  const byFunction = task('by.function', input<Item>(), {
    fairKey: (item) => item.tenant?.id,
    share: (item) => item.tenant?.share ?? 1,
    run,
  })
  const byPath = task('by.path', input<Item>(), { fairKey: 'tenant.id', share: 2, run })
  const plain = task('plain', input<Item>(), { run })
  const tasks = [byFunction, byPath, plain]
  const engine = harness.create({ tasks, queues: { default: { concurrency: 1 } }, ...options })
  return { ...harness, story, byFunction, byPath, plain, engine }
}

function starts(story: readonly string[]): string {
  return story.join('')
}

describe('a fair key', () => {
  test('has tenants take turns, each with the starts of its share', async () => {
    const { clock, story, byFunction, engine } = oneSlot()
    for (const tenant of [
      { id: 'a', share: 3 },
      { id: 'b', share: 1 },
    ])
      await byFunction.enqueueMany(Array.from({ length: 9 }, () => ({ name: tenant.id, tenant })))
    await engine.start()
    await clock.advance('7.5s')
    expect(starts(story)).toBe('aaabaaab')
  })

  test('is shared by the tasks of a queue, whether a function or a path finds it', async () => {
    const { clock, story, byFunction, byPath, engine } = oneSlot()
    await byPath.enqueueMany(Array.from({ length: 3 }, () => ({ name: 'p', tenant: { id: 42 } })))
    await byFunction.enqueueMany(Array.from({ length: 3 }, () => ({ name: 'f', tenant: { id: '42' } })))
    await byFunction.enqueueMany(Array.from({ length: 3 }, () => ({ name: 'o', tenant: { id: 'other' } })))
    await engine.start()
    await clock.advance('5.5s')
    expect(starts(story)).toBe('popopo')
  })

  test('can be given by a call, or taken away by it', async () => {
    const { clock, story, byFunction, plain, engine } = oneSlot()
    const [own] = await plain.enqueueMany([{ name: 'x' }, { name: 'x' }, { name: 'x' }], { fairKey: 'k', share: 2 })
    await byFunction.enqueueMany([
      { name: 'y', tenant: { id: 'y' } },
      { name: 'y', tenant: { id: 'y' } },
    ])
    const off = await byFunction.enqueue({ name: 'z', tenant: { id: 'y' } }, { fairKey: null })
    expect(await engine.jobs.explain(own!.id)).toMatchObject({ fairKey: 'k', share: 2 })
    expect((await engine.jobs.explain(own!.id)).words).toBe(
      'The job waits for a free slot of queue default, at position 1 of its lane. The jobs of k take turns with those of others, 2 starts each time. No live process serves queue default.',
    )
    expect(await engine.jobs.explain(off.id)).toMatchObject({ fairKey: null, share: 1 })
    await engine.start()
    await clock.advance('5.5s')
    expect(starts(story)).toBe('zxxyxy')
  })

  test('that is missing is none', async () => {
    const { byFunction, engine } = oneSlot()
    for (const tenant of [{ id: '' }, { id: null }, undefined]) {
      const job = await byFunction.enqueue(tenant ? { name: 'a', tenant } : { name: 'a' })
      expect(await engine.jobs.explain(job.id)).toMatchObject({ fairKey: null })
    }
  })

  test('or a share that cannot be is refused before anything is written', async () => {
    const { byFunction, plain, engine } = oneSlot()
    const refused = { code: 'fairness.invalid' }
    await expect(byFunction.enqueue({ name: 'a', tenant: { id: 'a', share: 0 } })).rejects.toMatchObject(refused)
    await expect(byFunction.enqueue({ name: 'a', tenant: { id: 'a', share: 1.5 } })).rejects.toMatchObject(refused)
    await expect(byFunction.enqueue({ name: 'a', tenant: { id: Number.NaN } })).rejects.toMatchObject(refused)
    await expect(byFunction.enqueue({ name: 'a', tenant: { id: {} as string } })).rejects.toMatchObject(refused)
    await expect(plain.enqueue({ name: 'a' }, { share: 101 })).rejects.toMatchObject(refused)
    expect(await engine.jobs.list()).toEqual([])
    const run = (): void => undefined
    expect(() => task('bad', { fairKey: 'a..b', run })).toThrow(expect.objectContaining(refused))
    expect(() => task('bad', { share: 0, run })).toThrow(expect.objectContaining(refused))
    const throws = task('throws', input<Item>(), {
      fairKey: () => {
        throw new Error('no tenant')
      },
      run,
    })
    const other = createEngineHarness().create({ tasks: [throws] })
    await expect(other.enqueue(throws, { name: 'a' })).rejects.toThrow(/fairKey function threw: no tenant/)
  })

  test('goes with the occurrences of a schedule', async () => {
    const { clock, story, byFunction, plain, engine } = oneSlot()
    const every = { every: '1s', immediately: true, overlap: 'allow' } as const
    await engine.schedule(plain, { name: 's' }, { ...every, fairKey: 's', share: 2, maxRuns: 4 })
    await byFunction.enqueueMany(Array.from({ length: 6 }, () => ({ name: 'a', tenant: { id: 'a' } })))
    await engine.start()
    await clock.advance('9.5s')
    expect(starts(story)).toBe('assassaaaa')
    expect(story.filter((name) => name === 's')).toHaveLength(4)
  })
})

describe('headroom', () => {
  test('keeps the last units for the urgent, and says so', async () => {
    const harness = createEngineHarness()
    const llm = limit('llm', { rate: 10, per: '10s', headroom: { units: 4, priority: 50 } })
    const started: string[] = []
    const ask = task('ask', input<Item>(), {
      limits: [llm],
      run: ({ name }) => void started.push(`${name}@${Math.round(harness.at())}`),
    })
    const engine = await harness.start({ tasks: [ask] })
    const jobs = await ask.enqueueMany(Array.from({ length: 7 }, () => ({ name: 'bulk' })))
    await harness.clock.advance('100ms')
    expect(started).toHaveLength(6)
    expect((await engine.limits.inspect(llm))[0]).toMatchObject({
      available: 4,
      waiting: 1,
      headroom: { units: 4, priority: 50 },
    })
    expect((await engine.jobs.explain(jobs[6]!.id)).words).toMatch(
      /The last 4 of that budget are kept for jobs of priority 50 and above\./,
    )
    await ask.enqueueMany([{ name: 'user' }, { name: 'user' }], { priority: 50 })
    await harness.clock.advance('100ms')
    expect(started.slice(6)).toEqual(['user@0', 'user@0'])
    await harness.clock.advance('10s')
    expect(started.slice(8)).toEqual(['bulk@3'])
  })

  test('what could never start below it is refused', async () => {
    const harness = createEngineHarness()
    const llm = limit('llm', { rate: 10, per: '10s', headroom: { units: 4, priority: 50 } })
    const ask = task('ask', input<Item>(), { limits: [llm], run: () => undefined })
    const engine = harness.create({ tasks: [ask] })
    await expect(ask.enqueue({ name: 'a' }, { weight: 7 })).rejects.toMatchObject({
      code: 'limit.weight.above_burst',
      message: expect.stringMatching(/weight 7 and priority 0 can never start: 4 of 10 units are kept/) as string,
    })
    await ask.enqueue({ name: 'a' }, { weight: 6 })
    await ask.enqueue({ name: 'a' }, { weight: 7, priority: 50 })
    expect(await engine.jobs.list()).toHaveLength(2)
  })

  test('a forecast reckons without it, and with it for the urgent alone', async () => {
    const harness = createEngineHarness()
    const llm = limit('llm', { rate: 10, per: '10s', headroom: { units: 4, priority: 50 } })
    const ask = task('ask', input<Item>(), { limits: [llm], run: () => undefined })
    const engine = harness.create({ tasks: [ask] })
    await ask.enqueueMany(Array.from({ length: 20 }, () => ({ name: 'bulk' })))
    expect(await engine.forecast(llm)).toMatchObject({ jobs: 20, drainMs: 14_000 })
    expect(await engine.forecast(llm, { backlog: 20 })).toMatchObject({ drainMs: 14_000 })
    expect(await engine.forecast(llm, { policy: { rate: 10, per: '10s' } })).toMatchObject({ drainMs: 10_000 })
  })
})

describe('ageing', () => {
  test('brings on what would else wait for ever', async () => {
    const { clock, story, plain, engine } = oneSlot({ ageing: '10s' })
    await plain.enqueue({ name: 'low' }, { priority: -1 })
    await engine.start()
    for (let second = 0; second < 30; second++) {
      await plain.enqueue({ name: `${second}` })
      if (second < 3) await plain.enqueue({ name: `${second}b` })
      await clock.advance('1s')
    }
    // One step is gained after ten seconds: behind the thirteen that came before, and before all that came after.
    expect(story.indexOf('low')).toBe(13)
  })

  test.each([['0ms'], [0.5]])('of %s is refused', (ageing) => {
    expect(() => createEngineHarness().create({ tasks: [], ageing: ageing as '1s' })).toThrow(
      expect.objectContaining({ code: 'option.invalid' }),
    )
  })
})
