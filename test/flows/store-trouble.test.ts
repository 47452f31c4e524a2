// A store that is in trouble for a moment while flows are entered: nothing of a flow fails by it, and no attempt is used.
import { describe, expect, test } from 'vitest'
import { SluiceError } from '../../src/base/errors.ts'
import { input, limit } from '../../src/exports/index.ts'
import { graph, machine, workflow } from '../../src/exports/flows.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { createStore } from '../../src/store/open.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const any = input<unknown>()
const once = { attempts: 1 } as const

/** A store, some of whose calls fail while it is troubled, as they do once they have tried for long enough. */
function troubled(real: Store, calls: readonly (keyof Store)[]): { store: Store; begin: () => void; end: () => void } {
  let isTroubled = false
  const store = new Proxy(real, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: readonly unknown[]): unknown => {
        if (!isTroubled || !calls.includes(name as keyof Store)) return Reflect.apply(value, target, args)
        return Promise.reject(new SluiceError('store.busy', 'Another process holds the store.', { lasts: 'passes' }))
      }
    },
  })
  return { store, begin: () => void (isTroubled = true), end: () => void (isTroubled = false) }
}

describe.each(STORES)('flows on $name, whose store is in trouble', (kind) => {
  test('go on once it is over, where a limit is defined by its first use', async () => {
    const w = new FlowsHarness(kind)
    const fresh = (name: string) => limit(name, { rate: 10, per: '1s' })
    const body = workflow('body', any, {
      defaults: { retry: once },
      run: async (_input, flow) => {
        const one = await flow.step('one', { limits: [fresh('of.step')] }, () => 1)
        const side = [flow.step('two', { limits: [fresh('of.two')] }, () => 2), flow.step('three', () => 3)]
        return [one, ...(await Promise.all(side))]
      },
    })
    const states = machine('states', {
      states: { a: any, b: any },
      first: 'a',
      retry: once,
      result: input<string>(),
      run: {
        a: (_state, to) => to.next('b', 1, { limits: [fresh('of.move')] }),
        b: (_state, to) => to.done('end'),
      },
    })
    const steps = graph('steps', any)
      .step('a', { retry: once, limits: [fresh('of.graph')] }, () => 'a')
      .output(({ a }) => a)
    const retention = { completedUs: 36e8, cancelledUs: 36e8, discardedUs: 36e8 }
    const real = await createStore(w.url, { clock: w.clock, durability: 'process', retention })
    const { store, begin, end } = troubled(real, ['define'])
    await w.start({ store, workflows: [body, states, steps] })
    const flows = [await body.start(1), await states.start(1), await steps.start(1)]
    begin()
    await w.clock.advance('3s')
    end()
    await w.clock.advance('5s')
    expect(await Promise.all(flows.map((flow) => flow.result({ timeout: 0 })))).toEqual([[1, 2, 3], 'end', 'a'])
  })

  test('go on once it is over, where what they remember is read', async () => {
    const w = new FlowsHarness(kind)
    const kid = workflow('kid', any, { run: (_input, flow) => flow.sleep('pause', '1s') })
    const body = workflow('body', any, {
      defaults: { retry: once },
      run: async (_input, flow) => {
        await Promise.all([flow.child('kid', kid, 1), flow.step('side', () => 1)])
        return flow.step('last', () => 'end')
      },
    })
    const states = machine('states', {
      states: { a: any, b: any },
      first: 'a',
      signals: { go: any },
      retry: once,
      result: input<number>(),
      run: {
        a: (_state, to) => to.wait(['go'], 'b', 1, { within: '1s' }),
        b: (_state, to) => to.done(to.signals.length),
      },
    })
    const retention = { completedUs: 36e8, cancelledUs: 36e8, discardedUs: 36e8 }
    const real = await createStore(w.url, { clock: w.clock, durability: 'process', retention })
    const { store, begin, end } = troubled(real, ['enterFlow'])
    await w.start({ store, workflows: [kid, body, states] })
    const flows = [await body.start(1), await states.start(1)]
    await w.clock.advance('500ms')
    begin()
    await w.clock.advance('3s')
    end()
    await w.clock.advance('5s')
    expect(await Promise.all(flows.map((flow) => flow.result({ timeout: 0 })))).toEqual(['end', 0])
  })
})
