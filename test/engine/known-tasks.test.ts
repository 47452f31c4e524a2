import { describe, expect, test } from 'vitest'
import { input, limit, type Sluice, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness, type EngineHarness } from './engine-harness.ts'

const stores = await everyStore('The tests of tasks that an engine does not list')

async function waitFor(harness: EngineHarness, done: () => boolean): Promise<void> {
  for (let i = 0; i < 600 && !done(); i++) await harness.clock.advance('100ms')
}

/** A task that counts its runs. */
function counted(name: string, budget = limit('budget', { rate: 20, per: '1s', burst: 1 })) {
  const runs: number[] = []
  const made = task(name, input<number>(), {
    limits: [budget],
    run: (n) => {
      runs.push(n)
    },
  })
  return { task: made, runs }
}

describe.each(stores)('on $name', ({ create }) => {
  test('old and new workers of one queue and limit do all the work, and waste no start', async () => {
    const harness = createEngineHarness()
    const store = create()
    const common = counted('work.common')
    const added = counted('work.added')
    await harness.start({ store, tasks: [common.task] })
    const current = await harness.start({ store, tasks: [common.task, added.task] })
    for (let i = 0; i < 60; i++) {
      await current.enqueue(added.task, i)
      await current.enqueue(common.task, i)
    }
    const startedMs = harness.clock.now()
    await waitFor(harness, () => common.runs.length + added.runs.length >= 120)
    expect([common.runs.length, added.runs.length]).toEqual([60, 60])
    expect(new Set(common.runs).size + new Set(added.runs).size).toBe(120)
    expect(harness.clock.now() - startedMs).toBeLessThan(7000)
    const jobs = await current.jobs.list({ limit: 200 })
    expect(jobs.map(({ state, attempt }) => `${state} ${attempt}`)).toEqual(
      Array.from({ length: 120 }, () => 'completed 1'),
    )
  })

  test('two services share a queue and a limit, and both go on', async () => {
    const harness = createEngineHarness()
    const store = create()
    const [one, other] = [counted('one.work'), counted('other.work')]
    const first = await harness.start({ store, tasks: [one.task] })
    const second = await harness.start({ store, tasks: [other.task] })
    for (let i = 0; i < 40; i++) {
      await first.enqueue(one.task, i)
      await second.enqueue(other.task, i)
    }
    await waitFor(harness, () => one.runs.length >= 30 || other.runs.length >= 30)
    // Neither has had all of the budget.
    expect(Math.min(one.runs.length, other.runs.length)).toBeGreaterThan(10)
    await waitFor(harness, () => one.runs.length + other.runs.length >= 80)
    expect([one.runs, other.runs]).toEqual([
      Array.from({ length: 40 }, (_, i) => i),
      Array.from({ length: 40 }, (_, i) => i),
    ])
  })

  test('a job whose task no worker lists waits uncharged and explained, with one warning, and starts once a worker does', async () => {
    const harness = createEngineHarness()
    const store = create()
    const [known, unknown] = [counted('work.known'), counted('work.unknown')]
    const plain = task('work.plain', { run: () => undefined })
    const writer = harness.create({ store, tasks: [unknown.task, plain] })
    const job = await writer.enqueue(unknown.task, 1, { priority: 5 })
    const open = await writer.enqueue(plain)
    harness.warnings.length = 0
    const engine = await harness.start({ store, tasks: [known.task] })
    await engine.enqueue(known.task, 1)
    await engine.enqueue(known.task, 2)
    await waitFor(harness, () => known.runs.length === 2)
    await harness.clock.advance('20s')
    expect(known.runs).toEqual([1, 2])
    for (const { id } of [job, open])
      expect(await engine.jobs.get(id)).toMatchObject({ state: 'available', attempt: 0, error: null })
    const explained = await engine.jobs.explain(job.id)
    expect(explained).toMatchObject({ served: true, known: false, exact: false })
    expect(explained.words).toContain('no live worker lists task work.unknown')
    expect(harness.warnings.filter((text) => text.includes('work.unknown'))).toEqual([
      expect.stringContaining('no live worker lists task work.unknown'),
    ])
    expect(harness.warnings.filter((text) => text.includes('work.plain'))).toHaveLength(1)
    await writer.start()
    await waitFor(harness, () => unknown.runs.length === 1)
    expect(unknown.runs).toEqual([1])
    expect((await engine.jobs.get(open.id))?.state).toBe('completed')
  })

  test('what a worker listed is unknown again once its lease is over', async () => {
    const harness = createEngineHarness()
    const store = create()
    const [known, unknown] = [counted('work.known'), counted('work.unknown')]
    const engine = await harness.start({ store, tasks: [known.task] })
    const other: Sluice = await harness.start({ store, tasks: [unknown.task], queues: { default: {} } })
    const job = await other.enqueue(unknown.task, 1, { delay: '1h' })
    expect((await engine.jobs.explain(job.id)).known).toBe(true)
    await harness.stop(other)
    expect((await engine.jobs.explain(job.id)).known).toBe(false)
  })
})
