// A signal that comes just after the wait for it has ended, at each door.
import { describe, expect, test } from 'vitest'
import { input } from '../../src/exports/index.ts'
import { graph, machine, type Startable, workflow } from '../../src/exports/flows.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()
const DAY_S = 86_400
type Door = (w: FlowsHarness) => Startable<{ n: number }, string | null, { go: ReturnType<typeof input<string>> }>

/** Flows that wait for `go` for a day, note what came of it, and ask again ten seconds later. */
const DOORS: Record<string, Door> = {
  workflow: (w) =>
    workflow('late', numbered, {
      signals: { go: input<string>() },
      run: async (_input, flow) => {
        const first = await flow.signal('go', { within: '1d' })
        await flow.step('first', () => w.note(`first ${first}`))
        await flow.sleep('rest', '10s')
        return flow.signal('go', { within: '1d' })
      },
    }),
  machine: (w) =>
    machine('late', {
      states: { ask: numbered, first: numbered, again: numbered, second: numbered },
      signals: { go: input<string>() },
      first: 'ask',
      result: input<string | null>(),
      run: {
        ask: (state, to) => to.wait(['go'], 'first', state, { within: '1d' }),
        first: (state, to) => {
          w.note(`first ${to.signals[0]?.payload ?? null}`)
          return to.next('again', state, { delay: '10s' })
        },
        again: (state, to) => to.wait(['go'], 'second', state, { within: '1d' }),
        second: (_state, to) => to.done(to.signals[0]?.payload ?? null),
      },
    }),
  // A step of a graph asks once, and again when its flow is retried from there.
  graph: (w) =>
    graph('late', numbered)
      .signal('go', input<string>(), { within: '1d' })
      .after('go')
      .step('first', ({ go }) => w.note(`first ${go}`))
      .after('first')
      .sleep('rest', '10s')
      .after('rest', 'go')
      .step('check', { retry: { attempts: 1 } }, ({ go }) => {
        if (go === null) throw new Error('Nothing has come')
      })
      .output(({ go }) => go),
}

describe.each(STORES)('a signal on $name', (store) => {
  test.each(Object.entries(DOORS))(
    'that comes a millisecond after the wait of a %s for it is there when it is asked for again',
    async (_, define) => {
      const w = new FlowsHarness(store)
      const first = define(w)
      const before = await w.start({ workflows: [first] })
      const flow = await first.start({ n: 1 })
      await w.clock.advance('1s')
      // For most of the day no engine works.
      await w.stop(before)
      await w.clock.advance((DAY_S - 2 - w.at) * 1000)
      const late = define(w)
      const engine = await w.start({ workflows: [late] })
      await w.clock.advance('1s')
      expect(w.starts).toEqual([])
      await w.clock.advance((DAY_S - w.at) * 1000)
      expect(w.starts).toEqual([{ step: 'first null', at: DAY_S }])
      await w.clock.advance(1)
      expect(await late.signal(flow.id, 'go', 'late', { once: 'e1' })).toEqual({ duplicate: false })
      expect(await late.signal(flow.id, 'go', 'late', { once: 'e1' })).toEqual({ duplicate: true })
      await w.clock.advance('10s')
      if ((await engine.flows.get(flow.id))?.state === 'failed') {
        expect(await engine.flows.retry(flow.id, { from: 'go' })).toBe(true)
        await w.clock.advance('20s')
      }
      expect(await engine.jobs.result(flow.id)).toBe('late')
      // The second ask did not wait.
      expect(w.at).toBeLessThanOrEqual(DAY_S + 31)
    },
  )
})
