// Limits of steps whose key and weight are functions beside the limit.
import { describe, expect, test } from 'vitest'
import { input, limit } from '../../src/exports/index.ts'
import { graph, machine } from '../../src/exports/flows.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const order = input<{ tenant: string; units: number }>()

describe.each(STORES)('a limit with a function beside it on $name', (store) => {
  test('charges the bucket and the units that the function names, at each door', async () => {
    const w = new FlowsHarness(store)
    const budget = limit('budget', { rate: 10, per: '365d', burst: 10 })
    const states = machine('states', {
      states: { pay: order },
      first: 'pay',
      limits: { pay: [{ limit: budget, by: ({ tenant }) => tenant, weight: ({ units }) => units }] },
      run: { pay: (_state, to) => to.done(undefined) },
    })
    const steps = graph('steps', order)
      .step(
        'pay',
        { limits: [{ limit: budget, by: ({ input: { tenant } }) => tenant, weight: ({ input: { units } }) => units }] },
        () => null,
      )
      .output(() => null)
    const same = graph('steps', order)
      .step(
        'pay',
        { limits: [budget.by(({ input: { tenant } }) => tenant, { weight: ({ input: { units } }) => units })] },
        () => null,
      )
      .output(() => null)
    expect(steps.hash).toBe(same.hash)
    const engine = await w.start({ workflows: [states, steps] })
    await states.start({ tenant: 'acme', units: 3 })
    await steps.start({ tenant: 'birch', units: 4 })
    await w.clock.advance('1s')
    const buckets = await engine.limits.inspect('budget')
    const left = new Map(buckets.map(({ key, available }) => [key, Math.floor(available ?? 0)]))
    expect([left.get('acme'), left.get('birch')]).toEqual([7, 6])
  })
})

test('a limit beside something that is no key is refused', () => {
  const budget = limit('budget', { every: '1s' })
  for (const by of [1, null, {}, '', []]) {
    const define = (): unknown =>
      machine('m', {
        states: { pay: order },
        first: 'pay',
        limits: { pay: [{ limit: budget, by } as never] },
        run: { pay: (_state, to) => to.done(undefined) },
      })
    expect(define).toThrow(expect.objectContaining({ code: 'option.invalid' }))
  }
})
