// Processes that die at a point of a flow, and what another one makes of it.
import { describe, expect, test } from 'vitest'
import { input, limit } from '../../src/exports/index.ts'
import { graph, machine, type Startable, workflow } from '../../src/exports/flows.ts'
import type { Settlement } from '../../src/jobs/settlement.ts'
import type { GrantedJob } from '../../src/jobs/job.ts'
import { type Death, mortalStore } from './mortal-store.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()

/** The settlement of a run that this is true of. */
const settles =
  (fits: (settlement: Settlement) => boolean): Death['fits'] =>
  (args) =>
    fits(args[1] as Settlement)
const moves = (fits: (move: Extract<Settlement, { kind: 'next' }>['move']) => boolean): Death['fits'] =>
  settles((settlement) => settlement.kind === 'next' && fits(settlement.move))
const writes = (step: string): Death['fits'] =>
  moves(({ steps }) => steps.some(({ name, state }) => name === step && state === 'done'))
const grants = (step: string): Death['fits'] => {
  return (_, claimed) =>
    (claimed as { jobs: readonly GrantedJob[] }).jobs.some((job) => job.flow?.workflow?.step === step)
}

const DEATHS: readonly (readonly [string, Death, { starts: string[]; left: number }])[] = [
  [
    'after the effect of a step and before its commit: the step is repeated once, and paid again',
    { when: 'before', call: 'settle', fits: writes('pay') },
    { starts: ['a', 'pay', 'pay', 'b'], left: 8 },
  ],
  [
    'after the commit of a step and before the next grant: nothing is repeated',
    { when: 'after', call: 'settle', fits: writes('pay') },
    { starts: ['a', 'pay', 'b'], left: 9 },
  ],
  [
    'after the grant of a step and before its handler: it runs once, and is paid twice',
    { when: 'after', call: 'claim', fits: grants('pay') },
    { starts: ['a', 'pay', 'b'], left: 8 },
  ],
]

describe.each(STORES)('a process that dies on $name', (store) => {
  /** Runs a flow until its process is dead, and then in another one. */
  async function lives(w: FlowsHarness, death: Death, flows: () => readonly Startable<{ n: number }, number>[]) {
    const first = flows()
    const { store: mortal, isDead } = await mortalStore(w.url, w.clock, death)
    const victim = await w.start({ store: mortal, workflows: first, lease: '10s' })
    const flow = await first[0]!.start({ n: 1 })
    await w.clock.advance('1s')
    expect(isDead()).toBe(true)
    await w.stop(victim)
    const engine = await w.start({ workflows: flows(), lease: '10s' })
    await w.clock.advance('1m')
    return { engine, id: flow.id }
  }

  const doors = (w: FlowsHarness) => {
    const budget = limit('budget', { rate: 10, per: '365d', burst: 10 })
    return {
      workflow: () =>
        workflow('mortal', numbered, {
          run: async ({ n }, flow) => {
            await flow.step('a', () => w.note('a'))
            const paid = await flow.step('pay', { limits: [budget] }, () => (w.note('pay'), n))
            return flow.step('b', () => (w.note('b'), paid + 1))
          },
        }),
      machine: () =>
        machine('mortal', {
          states: { a: numbered, pay: numbered, b: numbered },
          first: 'a',
          result: input<number>(),
          limits: { pay: [budget] },
          run: {
            a: (state, to) => (w.note('a'), to.next('pay', state)),
            pay: ({ n }, to) => (w.note('pay'), to.next('b', { n: n + 1 })),
            b: ({ n }, to) => (w.note('b'), to.done(n)),
          },
        }),
    }
  }

  describe.each(['workflow', 'machine'] as const)('in a %s', (door) => {
    test.each(DEATHS)('%s', async (_, death, { starts, left }) => {
      const w = new FlowsHarness(store)
      const { engine, id } = await lives(w, death, () => [doors(w)[door]()])
      expect(w.starts.map(({ step }) => step)).toEqual(starts)
      expect(await engine.jobs.get(id)).toMatchObject({ state: 'completed', result: 2 })
      const [bucket] = await engine.limits.inspect('budget')
      expect(Math.floor(bucket?.available ?? 0)).toBe(left)
    })
  })

  test('behind the commit of a limited step has the next step count its attempts, whose error names it', async () => {
    const w = new FlowsHarness(store)
    const budget = limit('budget', { rate: 10, per: '365d', burst: 10 })
    const body = () =>
      workflow('mortal', numbered, {
        defaults: { retry: { attempts: 3, backoff: 'none' } },
        run: async (_input, flow) => {
          await flow.step('pay', { limits: [budget] }, () => w.note('pay'))
          // The process that runs it dies.
          await flow.step('deadly', () => (w.note('deadly'), new Promise(() => undefined)))
        },
      })
    const flow = await (async () => {
      const first = body()
      const idle = w.create({ workflows: [first] })
      const started = await first.start({ n: 1 })
      await w.stop(idle)
      return started
    })()
    for (let life = 0; life < 4; life++) {
      const death: Death = { when: 'before', call: 'settle', fits: () => false }
      const { store: mortal, kill } = await mortalStore(w.url, w.clock, death)
      const victim = await w.start({ store: mortal, workflows: [body()], lease: '10s' })
      await w.clock.advance('1s')
      kill()
      await w.stop(victim)
      await w.clock.advance('20s')
    }
    const engine = await w.start({ workflows: [body()], lease: '10s' })
    await w.clock.advance('1m')
    expect(w.starts.map(({ step }) => step)).toEqual(['pay', 'deadly', 'deadly', 'deadly'])
    const error = { code: 'lease.lost', message: expect.stringContaining('in the step deadly.') as string }
    expect(await engine.flows.get(flow.id)).toMatchObject({ state: 'failed', error })
    const [bucket] = await engine.limits.inspect('budget')
    expect(Math.floor(bucket?.available ?? 0)).toBe(9)
  })

  describe.each(['before', 'after'] as const)('%s the commit', (when) => {
    test('of a spawn has started all children or none; each runs once, and the parent goes on once', async () => {
      const w = new FlowsHarness(store)
      const fits = moves(({ children }) => children.length > 0)
      await lives(w, { when, call: 'settle', fits }, () => family(w))
      expect(w.starts.map(({ step }) => step).toSorted()).toEqual(['child 0', 'child 1', 'child 2', 'end'])
    })

    test('of the end of a child has its parent go on once', async () => {
      const w = new FlowsHarness(store)
      const fits = settles((run) => run.kind === 'complete' || (run.kind === 'next' && run.move.then.kind === 'end'))
      await lives(w, { when, call: 'settle', fits }, () => family(w))
      expect(w.of('end')).toHaveLength(1)
    })

    test('of what a step of a graph is resolved to leaves it to another process', async () => {
      const w = new FlowsHarness(store)
      const call = limit('call', { rate: 10, per: '365d', burst: 10 })
      const resolved = () =>
        graph('mortal', numbered)
          .step('up', ({ input: { n } }) => ({ key: `k${n}` }))
          .after('up')
          .step('pay', { limits: [call.by(({ up }) => up.key)] }, ({ input: { n } }) => (w.note('pay'), n + 1))
          .output(({ pay }) => pay)
      const fits = moves(({ then, spawn }) => spawn.length > 0 || (then.kind === 'go' && then.arrival.uses.length > 0))
      const { engine, id } = await lives(w, { when, call: 'settle', fits }, () => [resolved()])
      expect(w.of('pay')).toHaveLength(1)
      expect(await engine.jobs.get(id)).toMatchObject({ state: 'completed', result: 2 })
      expect((await engine.limits.inspect('call')).map(({ key }) => key)).toEqual(['k1'])
    })
  })
})

/** A flow with three children. */
function family(w: FlowsHarness): readonly Startable<{ n: number }, number>[] {
  const child = workflow('child', numbered, {
    run: ({ n }, flow) => flow.step('s', () => (w.note(`child ${n}`), n)),
  })
  const parent = workflow('parent', numbered, {
    run: async (_, flow) => {
      const ends = await Promise.all([0, 1, 2].map((n) => flow.child(`c${n}`, child, { n })))
      w.note('end')
      return ends.reduce((sum, n) => sum + n, 0)
    },
  })
  return [parent, child]
}
