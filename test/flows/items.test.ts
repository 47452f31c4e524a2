// The values that items of a step see, on every store: a flow keeps long lists once.
import { describe, expect, it } from 'vitest'
import { SluiceError } from '../../src/base/errors.ts'
import { internalsOf } from '../../src/engine/internals.ts'
import { graph } from '../../src/exports/flows.ts'
import { input } from '../../src/exports/index.ts'
import type { Schema } from '../../src/jobs/schema.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

interface Given {
  readonly count: number
}

/** Notes longer than any short list, so that copies of it would be many bytes. */
const NOTE = 'a note of one item '.repeat(8)

function listed(name: string, schema: Schema<Given, Given> = input<Given>()) {
  return graph(name, schema)
    .step('list', ({ input: { count } }) => Array.from({ length: count }, (_, i) => ({ i, note: NOTE })))
    .after('list')
    .step('broken', { onFailure: 'continue', retry: { attempts: 1 } }, (): number => {
      throw new Error('out of paper')
    })
    .after('list')
    .step('left', { when: () => false }, () => 1)
    .after('list', 'broken', 'left')
    .each(({ list }) => list)
}

describe.each(STORES)('the items of a step on $name', (kind) => {
  it('see what the step sees, whether each has a copy or not', async () => {
    const harness = new FlowsHarness(kind)
    const g = listed('g')
      .step('work', (seen) => {
        const { item, index, list, broken, left, input: given } = seen
        // The next item sees none of it.
        const { length } = list
        list.splice(0)
        Object.assign(seen, { list: null, input: null })
        Object.freeze(seen)
        return [item.i, index, length, 'failed' in (broken as object), left ?? 'skipped', given.count]
      })
      .output(({ work }) => work)
    await harness.start({ workflows: [g] })
    for (const count of [3, 200]) {
      const flow = await g.start({ count })
      await harness.clock.advance('10s')
      expect(await flow.result()).toEqual(
        Array.from({ length: count }, (_, i) => [i, i, count, true, 'skipped', count]),
      )
    }
  })

  it('leave what they all see with their flow, so that a list of n items is kept once and not n times', async () => {
    const harness = new FlowsHarness(kind)
    const g = listed('g')
      .step('work', ({ item }) => item.i)
      .output(({ work }) => work.length)
    const engine = await harness.start({ workflows: [g] })
    const flow = await g.start({ count: 300 })
    await harness.clock.advance('10s')
    expect(await flow.result()).toBe(300)
    const jobs = await engine.jobs.list({ task: 'g/work[]', limit: 100 })
    expect(jobs).toHaveLength(100)
    for (const { input: own } of jobs) expect(JSON.stringify(own).length).toBeLessThan(500)
  })

  it.each(['at once', 'later'] as const)('see an input that its schema checks %s, each its own', async (when) => {
    const harness = new FlowsHarness(kind)
    const checked = (value: unknown): { value: Given } => ({ value: { count: (value as Given).count + 1 } })
    const schema: Schema<Given, Given> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value: unknown) => (when === 'later' ? Promise.resolve(checked(value)) : checked(value)),
      },
    }
    const g = listed('g', schema)
      .step('work', ({ input: given }) => {
        const seen = given.count
        Object.assign(given, { count: 0 })
        return seen
      })
      .output(({ work }) => work)
    await harness.start({ workflows: [g] })
    const flow = await g.start({ count: 199 })
    await harness.clock.advance('10s')
    expect(await flow.result()).toEqual(Array.from({ length: 200 }, () => 200))
  })

  it('use no attempt while the store cannot be read', async () => {
    const harness = new FlowsHarness(kind)
    const attempts: number[] = []
    let refusals = 0
    const g = graph('g', input<Given>())
      .step('list', ({ input: { count } }) => Array.from({ length: count }, (_, i) => ({ i, note: NOTE })))
      .after('list')
      .each(({ list }) => {
        refusals = 3
        return list
      })
      .step('work', { retry: { attempts: 1 } }, ({ list }, step) => {
        attempts.push(step.attempt)
        return list.length
      })
      .output(({ work }) => work.length)
    const engine = await harness.start({ workflows: [g] })
    const { store } = await internalsOf(engine).open()
    const enter = store.enterFlow.bind(store)
    store.enterFlow = async (seq) => {
      if (refusals-- > 0) throw new SluiceError('store.busy', 'Another process holds the store.', { lasts: 'passes' })
      return enter(seq)
    }
    const flow = await g.start({ count: 200 })
    await harness.clock.advance('20s')
    expect(await flow.result()).toBe(200)
    expect(refusals).toBeLessThanOrEqual(0)
    expect(attempts).toEqual(Array.from({ length: 200 }, () => 1))
  })

  it('are read once for all items of a step, also of many flows at once', async () => {
    const harness = new FlowsHarness(kind)
    const g = graph('g', input<Given>())
      .step('list', ({ input: { count } }) => Array.from({ length: count }, (_, i) => ({ i, note: NOTE })))
      .after('list')
      .each(({ list }) => list, { atOnce: 2 })
      .step('work', ({ list }) => list.length)
      .output(({ work }) => work.length)
    const engine = await harness.start({ workflows: [g] })
    const { store } = await internalsOf(engine).open()
    const enter = store.enterFlow.bind(store)
    let reads = 0
    store.enterFlow = (seq) => (reads++, enter(seq))
    const flows = await Promise.all(Array.from({ length: 20 }, () => g.start({ count: 100 })))
    await harness.clock.advance('60s')
    for (const flow of flows) expect(await flow.result()).toBe(100)
    // Entries of the flows read it too.
    expect(reads).toBeLessThan(20 * 8)
  })
})
