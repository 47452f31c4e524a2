// A failed flow that is tried again, and its time.
import { describe, expect, test } from 'vitest'
import { input, task } from '../../src/exports/index.ts'
import { graph, machine, workflow } from '../../src/exports/flows.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()

describe.each(STORES)('a retry on $name', (store) => {
  test('a flow that is tried again has its whole time again, at each door', async () => {
    const w = new FlowsHarness(store)
    const wait = (): Promise<void> => new Promise(() => undefined)
    const body = workflow('body', numbered, { timeout: '10s', run: wait })
    const parked = workflow('parked', numbered, {
      timeout: '10s',
      run: (_input, flow) => flow.sleep('long', '1h'),
    })
    const states = machine('states', {
      states: { a: numbered },
      first: 'a',
      timeout: '10s',
      run: { a: async (_state, to) => (await wait(), to.done(undefined)) },
    })
    const steps = graph('steps', numbered, { timeout: '10s' })
      .sleep('long', '1h')
      .output(() => null)
    const engine = await w.start({ workflows: [body, parked, states, steps], lease: '1m' })
    for (const each of [body, parked, states, steps]) {
      const { id } = await each.start({ n: 1 }, { delay: '5s' })
      const state = async (): Promise<unknown> => (await engine.flows.get(id))?.state
      await w.clock.advance('14s')
      expect(await state()).toBe('running')
      await w.clock.advance('2s')
      expect(await state()).toBe('failed')
      for (let tries = 0; tries < 2; tries++) {
        // Code that never ends is given up a while after it was aborted.
        await w.clock.advance('1m')
        expect(await engine.flows.retry(id)).toBe(true)
        await w.clock.advance('9s')
        expect(await state()).toBe('running')
        await w.clock.advance('2s')
        expect(await engine.flows.get(id)).toMatchObject({ state: 'failed', error: { code: 'flow.timeout' } })
      }
      await w.clock.advance('1m')
      // All its jobs have ended, and each is counted once.
      const flow = await engine.flows.get(id)
      expect(flow?.total).toBe((flow?.completed ?? 0) + (flow?.discarded ?? 0) + (flow?.cancelled ?? 0))
    }
  })

  test('a flow that ends in the time of its retry is not failed by it afterwards, and its joins go on', async () => {
    const w = new FlowsHarness(store)
    let broken = true
    const item = task('item', numbered, { run: ({ n }) => n })
    const body = workflow('body', numbered, {
      timeout: '1m',
      defaults: { retry: { attempts: 1 } },
      run: async (_input, flow) => {
        await flow.step('broken', () => {
          if (broken) throw new Error('broken')
        })
        return flow.map('items', item, [{ n: 1 }, { n: 2 }])
      },
    })
    const engine = await w.start({ tasks: [item], workflows: [body] })
    const flow = await body.start({ n: 1 })
    await w.clock.advance('1s')
    expect((await engine.flows.get(flow.id))?.state).toBe('failed')
    broken = false
    expect(await engine.flows.retry(flow.id)).toBe(true)
    await w.clock.advance('5m')
    expect(await flow.result({ timeout: 0 })).toEqual([1, 2])
    expect(await engine.jobs.list({ states: ['available', 'retryable', 'pending', 'scheduled'] })).toEqual([])
  })
})
