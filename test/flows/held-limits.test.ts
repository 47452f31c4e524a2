// Limits that a flow holds, in each form that the limits of its steps have.
import { describe, expect, test } from 'vitest'
import { graph, machine } from '../../src/exports/flows.ts'
import { input, limit } from '../../src/exports/index.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const order = input<{ tenant: string; units: number; of: { team: string; vip: boolean } }>()
const given = (tenant: string, units = 1): { tenant: string; units: number; of: { team: string; vip: boolean } } => ({
  tenant,
  units,
  of: { team: tenant, vip: tenant === 'acme' },
})

describe.each(STORES)('hold on $name', (store) => {
  test('of a machine and of a graph takes a path or a function beside the limit', async () => {
    const w = new FlowsHarness(store)
    const one = limit('one', { concurrency: 1 })
    const budget = limit('budget', { rate: 10, per: '365d', burst: 10 })
    const kinds = limit('kinds', { rate: 10, per: '365d', burst: 10 })
    const states = machine('states', {
      states: { a: order, b: order },
      first: 'a',
      hold: [
        { limit: one, by: 'of.team' },
        { limit: kinds, by: 'of.vip' },
        { limit: budget, by: ({ tenant }) => tenant, weight: ({ units }) => units },
      ],
      run: {
        a: (state, to) => (w.note(`m ${state.tenant}`), to.next('b', state, { delay: '10s' })),
        b: (_state, to) => to.done(),
      },
    })
    const steps = graph('steps', order, {
      hold: [
        { limit: one, by: ({ of }) => `g-${of.team}` },
        { limit: kinds, by: 'of.vip' },
        { limit: budget, by: 'tenant', weight: 'units' },
      ],
    })
      .step('a', ({ input: { tenant } }) => w.note(`g ${tenant}`))
      .after('a')
      .sleep('nap', '10s')
      .output(() => null)
    const engine = await w.start({ workflows: [states, steps] })
    await states.startMany([given('acme', 3), given('acme'), given('birch')])
    await steps.startMany([given('acme', 2), given('cedar', 4), given('cedar')])
    await w.clock.advance('1m')
    expect(w.starts.map(({ step, at }) => `${at} ${step}`).toSorted()).toEqual(
      ['0 m acme', '0 m birch', '0 g acme', '0 g cedar', '10 m acme', '10 g cedar'].toSorted(),
    )
    const left = async (name: string): Promise<Record<string, number>> => {
      const buckets = await engine.limits.inspect(name)
      return Object.fromEntries<number>(buckets.map(({ key, available }) => [key ?? '', Math.floor(available ?? 0)]))
    }
    expect(await left('budget')).toEqual({ acme: 4, birch: 9, cedar: 5 })
    expect(await left('kinds')).toEqual({ true: 7, false: 7 })
  })
})

test('a graph that holds by paths has the form of the same in JSON', () => {
  const budget = limit('budget', { rate: 10, per: '1h' })
  const inCode = graph('steps', order, { hold: [{ limit: budget, by: 'of.team', weight: 'units' }] })
    .step('a', () => 1)
    .output(() => null)
  const form = inCode.toJSON() as { hold: unknown }
  expect(form.hold).toEqual([{ limit: 'budget', by: 'input.of.team', weight: 'input.units' }])
})

test('hold beside something that is no key is refused', () => {
  const budget = limit('budget', { every: '1s' })
  const lists = [1, null, {}, '', []].map((by) => [{ limit: budget, by } as never])
  for (const hold of [...lists, budget as never, 'budget' as never]) {
    expect(() =>
      machine('m', { states: { a: order }, first: 'a', hold, run: { a: (_state, to) => to.done() } }),
    ).toThrow(expect.objectContaining({ code: 'option.invalid' }))
    expect(() =>
      graph('g', order, { hold })
        .step('a', () => 1)
        .output(() => null),
    ).toThrow(expect.objectContaining({ code: 'graph.invalid' }))
  }
})
