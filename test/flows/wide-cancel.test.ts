// A flow that is cancelled while many of its steps wait, some run, and children have children of their own.
import { describe, expect, test } from 'vitest'
import { input, limit } from '../../src/exports/index.ts'
import { child, graph, machine, type Startable, workflow } from '../../src/exports/flows.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()
const many = (count: number): { n: number }[] => Array.from({ length: count }, (_, n) => ({ n }))
const five = limit('five', { concurrency: 5 })
const paid = limit('paid', { rate: 100, per: '365d', burst: 100 })
const RUNNING = 5
const WAITING = 30
const WIDTH = 10
const LEVELS = 3
const CHILDREN = WIDTH + WIDTH ** 2 + WIDTH ** LEVELS

type Made = Startable<{ n: number }, null>

/** A flow whose steps need both limits, and whose children have children; the last ones sleep. */
const DOORS: Record<string, (ask: (signal: AbortSignal) => Promise<void>) => readonly Made[]> = {
  workflow: (ask) => {
    const flows: Made[] = [
      workflow('level0', numbered, { run: (_input, flow) => flow.sleep('long', '1h').then(() => null) }),
    ]
    for (let level = 1; level <= LEVELS; level++) {
      const below = flows[0] as Made
      flows.unshift(
        workflow(`level${level}`, numbered, {
          run: async (_input, flow) => {
            await Promise.all([
              ...many(WIDTH).map(({ n }) => flow.child(`below ${n}`, below, { n })),
              ...many(level === LEVELS ? RUNNING + WAITING : 0).map(({ n }) =>
                flow.step(`ask ${n}`, { limits: [five, paid] }, ({ signal }) => ask(signal)),
              ),
            ])
            return null
          },
        }),
      )
    }
    return flows
  },
  machine: (ask) => {
    const asks = machine('asks', {
      states: { ask: numbered },
      first: 'ask',
      result: input<null>(),
      limits: { ask: [five, paid] },
      run: { ask: async (_state, to) => (await ask(to.signal), to.done(null)) },
    })
    const flows: Made[] = [
      machine('level0', {
        states: { rest: numbered, end: numbered },
        first: 'rest',
        result: input<null>(),
        run: { rest: (state, to) => to.next('end', state, { delay: '1h' }), end: (_state, to) => to.done(null) },
      }),
    ]
    for (let level = 1; level <= LEVELS; level++) {
      const below = flows[0] as Made
      flows.unshift(
        machine(`level${level}`, {
          states: { begin: numbered, end: numbered },
          first: 'begin',
          result: input<null>(),
          run: {
            begin: (state, to) =>
              to.join(
                [
                  ...many(WIDTH).map((each) => child(below, each)),
                  ...many(level === LEVELS ? RUNNING + WAITING : 0).map((each) => child(asks, each)),
                ],
                'end',
                state,
              ),
            end: (_state, to) => to.done(null),
          },
        }),
      )
    }
    return [...flows, asks]
  },
  graph: (ask) => {
    const flows: Made[] = [
      graph('level0', numbered)
        .sleep('long', '1h')
        .output(() => null),
    ]
    for (let level = 1; level <= LEVELS; level++) {
      const below = flows[0] as Made
      flows.unshift(
        graph(`level${level}`, numbered)
          .each(() => many(WIDTH))
          .child('below', below, ({ item }) => item)
          .each(() => many(level === LEVELS ? RUNNING + WAITING : 0))
          .step('ask', { limits: [five, paid] }, (_, { signal }) => ask(signal))
          .output(() => null),
      )
    }
    return flows
  },
}

describe.each(STORES)('the cancel of a wide flow on $name', (store) => {
  test.each(Object.entries(DOORS))(
    'of a %s ends all that waits and all below it in its answer, aborts what runs, and charges nothing for the rest',
    async (_, define) => {
      const w = new FlowsHarness(store)
      let aborted = 0
      let begun = 0
      const ask = (signal: AbortSignal): Promise<void> => {
        begun++
        return new Promise((resolve) => signal.addEventListener('abort', () => (aborted++, resolve())))
      }
      const flows = define(ask)
      const other = workflow('other', numbered, {
        run: (_input, flow) => flow.step('s', { limits: [five, paid] }, () => w.note('other')),
      })
      const engine = await w.start({ workflows: [...flows, other], queues: { default: { concurrency: 100 } } })
      const flow = await (flows[0] as Made).start({ n: 0 })
      const failed = flow.result().catch((error: unknown) => error)
      await w.clock.advance('1s')
      await other.start({ n: 0 })
      await w.clock.advance('1s')
      expect(begun).toBe(RUNNING)
      const runningBelow = async (): Promise<number> => {
        let count = 0
        for (let level = 0; level < LEVELS; level++)
          for (let cursor: string | null = ''; cursor !== null;) {
            const filter = { name: `level${level}`, states: ['running'], limit: 1000 } as const
            const page: Awaited<ReturnType<typeof engine.flows.page>> = await engine.flows.page({
              ...filter,
              cursor: cursor || null,
            })
            count += page.flows.length
            cursor = page.cursor
          }
        return count
      }
      expect(await runningBelow()).toBe(CHILDREN)
      expect(await engine.flows.cancel(flow.id)).toBe(true)
      expect(await runningBelow()).toBe(0)
      const cancelledAt = w.at
      await w.clock.advance('200ms')
      expect([begun, aborted]).toEqual([RUNNING, RUNNING])
      expect(await failed).toMatchObject({ code: 'flow.cancelled' })
      // The flow that waited behind it has moved up, and beside the five only that has paid.
      expect(w.of('other')[0]).toBeLessThanOrEqual(cancelledAt + 0.2)
      const [bucket] = await engine.limits.inspect('paid')
      expect(bucket?.available).toBeCloseTo(94, 2)
      expect(bucket?.waiting).toBe(0)
      const open = await engine.jobs.list({ states: ['available', 'pending', 'active', 'retryable', 'scheduled'] })
      expect(open).toEqual([])
    },
  )
})
