// Bodies with many limited steps side by side: their side jobs that start together share one entry.
import { describe, expect, test } from 'vitest'
import { input, limit, NonRetryable } from '../../src/exports/index.ts'
import { workflow } from '../../src/exports/flows.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()
const free = limit('free', { rate: 1_000_000, per: '1s' })
const WIDE = { queues: { default: { concurrency: 100 } } }

describe.each(STORES)('wide bodies on $name', (store) => {
  test('three hundred steps, a hundred at once, enter their body a few times and run once each', async () => {
    const w = new FlowsHarness(store)
    let entries = 0
    const wide = workflow('wide', numbered, {
      run: (_input, flow) => {
        entries++
        const all = Array.from({ length: 300 }, (_, i) => i)
        return Promise.all(all.map((i) => flow.step(`s${i}`, { limits: [free] }, () => (w.note(`s${i}`), i))))
      },
    })
    await w.start({ workflows: [wide], ...WIDE })
    const flow = await wide.start({ n: 1 })
    await w.clock.advance('1m')
    expect(await flow.result({ timeout: 0 })).toEqual(Array.from({ length: 300 }, (_, i) => i))
    expect(w.starts).toHaveLength(300)
    // Once to ask for them, three times for a hundred each, and for the wakes between and after.
    expect(entries).toBeLessThanOrEqual(12)
  })

  test('in one entry a step fails, one is tried again, one is slow, one runs late and one is not asked for', async () => {
    const w = new FlowsHarness(store)
    let tries = 0
    let chance = 0
    const mixed = workflow('mixed', numbered, {
      defaults: { retry: { attempts: 3, backoff: 'fixed', initial: '5s', jitter: false } },
      run: async (_input, flow) => {
        const step = (name: string, code: () => unknown, timeout = '1h' as const) =>
          flow.step(name, { limits: [free], timeout }, async () => (w.note(name), code()))
        const ends = await Promise.allSettled([
          step('fine', () => 'fine'),
          step('fails', () => Promise.reject(new NonRetryable('not this one'))),
          step('again', () => (++tries < 3 ? Promise.reject(new Error('not yet')) : tries)),
          step('slow', () => w.clock.sleep('30s').then(() => 'slow')),
          chance++ === 0 ? step('by chance', () => 'never') : 'not asked for',
        ])
        return ends.map((end) => (end.status === 'fulfilled' ? end.value : (end.reason as { code: string }).code))
      },
    })
    await w.start({ workflows: [mixed], ...WIDE })
    const flow = await mixed.start({ n: 1 })
    await w.clock.advance('1m')
    expect(await flow.result({ timeout: 0 })).toEqual(['fine', 'step.failed', 3, 'slow', 'not asked for'])
    const at = (step: string) => w.starts.filter((start) => start.step === step).map((start) => Math.round(start.at))
    expect(at('again')).toEqual([0, 5, 10])
    for (const once of ['fine', 'fails', 'slow']) expect(at(once)).toHaveLength(1)
    expect(at('by chance')).toEqual([])
  })

  test('a step that asks for another one is refused in a shared entry, too', async () => {
    const w = new FlowsHarness(store)
    const nested = workflow('nested', numbered, {
      defaults: { retry: { attempts: 1 } },
      run: async (_input, flow) => {
        const within = (name: string) =>
          flow.step(name, { limits: [free] }, () => flow.step(`${name} within`, () => 'too late'))
        const ends = await Promise.allSettled([within('a'), within('b'), flow.step('c', { limits: [free] }, () => 1)])
        return ends.map((end) => end.status)
      },
    })
    await w.start({ workflows: [nested], ...WIDE })
    const flow = await nested.start({ n: 1 })
    await w.clock.advance('1m')
    expect(await flow.result({ timeout: 0 })).toEqual(['rejected', 'rejected', 'fulfilled'])
    const shown = await w.create({ workflows: [nested] }).flows.inspect(flow.id)
    expect(shown?.steps.map(({ error }) => error?.code ?? null)).toEqual(['step.nested', 'step.nested', null])
  })

  test('a body that waits for something of its own while its steps start gets each of them', async () => {
    const w = new FlowsHarness(store)
    const waits = workflow('waits', numbered, {
      run: async (_input, flow) => {
        const step = (name: string) => flow.step(name, { limits: [free] }, () => name)
        const early = Promise.all([step('a'), step('b')])
        await new Promise((resolve) => setImmediate(resolve))
        return [...(await early), ...(await Promise.all([step('c'), step('d')]))]
      },
    })
    await w.start({ workflows: [waits], ...WIDE })
    const flow = await waits.start({ n: 1 })
    await w.clock.advance('1m')
    expect(await flow.result({ timeout: 0 })).toEqual(['a', 'b', 'c', 'd'])
  })
})
