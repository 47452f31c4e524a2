// Bodies that name their steps by chance: side by side, too, they come to an end.
import { describe, expect, test } from 'vitest'
import { input, limit } from '../../src/exports/index.ts'
import { workflow } from '../../src/exports/flows.ts'
import { record } from '../engine/engine-harness.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()
const WIDE = { queues: { default: { concurrency: 100 } } }

describe.each(STORES)('steps that are named by chance on $name', (store) => {
  test('a body that names several limited steps by chance fails after a bounded number of starts, and says so once', async () => {
    const w = new FlowsHarness(store)
    let names = 0
    let ran = 0
    const free = limit('free', { rate: 1_000_000, per: '1s' })
    const endless = workflow('endless', numbered, {
      run: (_input, flow) =>
        Promise.all([1, 2, 3].map(() => flow.step(`s${names++}`, { limits: [free] }, () => ran++))),
    })
    const engine = await w.start({ workflows: [endless], ...WIDE })
    const events = record(engine, 'flow.strayed')
    const flow = await endless.start({ n: 1 })
    await w.clock.advance('1m')
    await expect(flow.result({ timeout: 0 })).rejects.toMatchObject({ reason: 'flow.strayed' })
    expect(ran).toBe(0)
    expect(names).toBeLessThan(100 * 3 * 5)
    expect(events).toHaveLength(1)
  })

  test('two hundred limited steps that new code has renamed cost their flow one look, not its end', async () => {
    const w = new FlowsHarness(store)
    const slow = limit('slow', { rate: 1000, per: '1s', burst: 1000 })
    let version = 1
    const renamed = workflow('renamed', numbered, {
      run: async (_input, flow) => {
        const all = Array.from({ length: 200 }, (_, i) => `v${version} ${i}`)
        await Promise.all(all.map((name) => flow.step(name, { limits: [slow] }, () => w.note(name))))
        await flow.sleep('pause', '1s')
        return version
      },
    })
    const old = await w.start({ workflows: [renamed], limits: [slow], ...WIDE })
    await old.limits.pause('slow')
    const flow = await renamed.start({ n: 1 })
    await w.clock.advance('1s')
    version = 2
    await old.limits.resume('slow')
    await w.clock.advance('1m')
    expect(await flow.result({ timeout: 0 })).toBe(2)
    expect(w.starts.filter(({ step }) => step.startsWith('v1'))).toEqual([])
    expect(new Set(w.starts.map(({ step }) => step)).size).toBe(200)
  })
})
