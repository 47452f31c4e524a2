// The events of flows: their content, and when they come.
import { describe, expect, test } from 'vitest'
import { input } from '../../src/exports/index.ts'
import { graph, machine, workflow } from '../../src/exports/flows.ts'
import { record } from '../engine/engine-harness.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'
import { mortalStore } from './mortal-store.ts'

const numbered = input<{ n: number }>()
const signals = { go: numbered }

describe.each(STORES)('the events of flows on $name', (store) => {
  test('the end of a flow whose move the store refuses is told with its error', async () => {
    const w = new FlowsHarness(store)
    const large = workflow('large', numbered, {
      run: async (_input, flow) => {
        for (let i = 0; i < 18; i++) await flow.step(`s${i}`, () => 'x'.repeat(1_000_000))
      },
    })
    const engine = await w.start({ workflows: [large] })
    const events = record(engine, 'job.discarded')
    const { id } = await large.start({ n: 1 })
    await w.clock.advance('1s')
    expect(events).toMatchObject([{ event: { id, task: 'large', error: { code: 'flow.too_large' } } }])
    expect(String(events[0]?.event.error)).toContain('Expected at most')
  })

  test('flows of each door are told to be parked once that is written, and to be woken', async () => {
    const w = new FlowsHarness(store)
    const body = workflow('body', numbered, {
      signals,
      run: async (_input, flow) => void (await flow.signal('go', { within: '1h' })),
    })
    const states = machine('states', {
      states: { a: numbered, b: numbered },
      signals,
      first: 'a',
      run: { a: (state, to) => to.wait(['go'], 'b', state, { within: '1h' }), b: (_state, to) => to.done(undefined) },
    })
    const steps = graph('steps', numbered)
      .signal('go', numbered, { within: '1h' })
      .output(() => null)
    for (const each of [body, states, steps]) {
      const { store: mortal } = await mortalStore(w.url, w.clock, { when: 'before', call: 'settle', fits: parks })
      const victim = await w.start({ store: mortal, workflows: [each], lease: '10s' })
      const early = record(victim, 'flow.parked')
      const flow = await each.start({ n: 1 })
      await w.clock.advance('1s')
      await w.stop(victim)
      // Its process died before the move was written.
      expect(early).toEqual([])
      const engine = await w.start({ workflows: [each], lease: '10s' })
      const events = record(engine, 'flow.parked', 'flow.woken')
      await w.clock.advance('1m')
      const about = { id: flow.id, workflow: each.name }
      const until: unknown = expect.any(Date)
      expect(events).toEqual([{ name: 'flow.parked', event: { ...about, signals: ['go'], until } }])
      await engine.flows.signal(flow.id, 'go', { n: 2 })
      await w.clock.advance('1s')
      expect(events.slice(1)).toEqual([{ name: 'flow.woken', event: about }])
      expect((await engine.flows.get(flow.id))?.state).toBe('completed')
      await w.stop(engine)
    }
  })
})

function parks(args: readonly unknown[]): boolean {
  const [, settlement] = args as [number, { kind: string; move?: { then: { kind: string } } }]
  return settlement.kind === 'next' && settlement.move?.then.kind === 'park'
}
