// Refusals of flows, and the ends of flows whose code is wrong.
import { describe, expect, test } from 'vitest'
import { input } from '../../src/exports/index.ts'
import { child, type Child, machine, workflow } from '../../src/exports/flows.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()

describe.each(STORES)('the refusals of flows on $name', (store) => {
  test('a change whose name no store keeps is refused, and so is one within a step', async () => {
    const w = new FlowsHarness(store)
    const names = ['a\0b', 'a\uD800', '', 'x'.repeat(201)]
    const odd = workflow('odd', numbered, {
      run: async ({ n }, flow) => {
        const changed = await flow.changed(names[n] as string)
        await flow.sleep('s', '1s')
        return changed
      },
    })
    const nested = workflow('nested', numbered, {
      defaults: { retry: { attempts: 1 } },
      run: (_input, flow) => flow.step('s', () => flow.changed('tax')),
    })
    await w.start({ workflows: [odd, nested] })
    const flows = await odd.startMany(names.map((_, n) => ({ n })))
    const within = await nested.start({ n: 0 })
    await w.clock.advance('5s')
    for (const flow of flows) await expect(flow.result()).rejects.toMatchObject({ reason: 'option.invalid' })
    await expect(within.result()).rejects.toMatchObject({ reason: 'step.nested' })
    expect(w.warnings).toEqual([])
  })

  test('a signal to the flow of another workflow finds no flow', async () => {
    const w = new FlowsHarness(store)
    const signals = { go: input<number>() }
    const one = workflow('one', numbered, { signals, run: (_input, flow) => flow.signal('go') })
    const two = workflow('two', numbered, { signals, run: (_input, flow) => flow.signal('go') })
    await w.start({ workflows: [one, two] })
    const flow = await one.start({ n: 1 })
    await w.clock.advance(0)
    await expect(two.signal(flow.id, 'go', 2)).rejects.toMatchObject({ code: 'flow.not_found' })
    expect(await one.signal(flow.id, 'go', 1)).toEqual({ duplicate: false })
    await w.clock.advance('1s')
    expect(await flow.result()).toBe(1)
  })

  test('a machine refuses moves with options and lists that it cannot read', async () => {
    const w = new FlowsHarness(store)
    type AnyTo = Record<'next' | 'retry' | 'wait' | 'join', (...given: readonly unknown[]) => never>
    const moves: readonly ((to: AnyTo) => never)[] = [
      (to) => to.retry({ dely: '1s' }),
      (to) => to.retry(null),
      (to) => to.wait('paid', 'b', {}),
      (to) => to.wait(['paid'], 'b', {}, null),
      (to) => to.wait([], 'b', {}),
      (to) => to.join(5, 'b', {}),
      (to) => to.join(null, 'b', {}),
    ]
    const moving = machine('moving', {
      states: { a: numbered, b: input<object>() },
      signals: { paid: input<number>() },
      first: 'a',
      run: { a: ({ n }, to) => moves[n]?.(to as unknown as AnyTo) as never, b: (_state, to) => to.done(undefined) },
    })
    await w.start({ workflows: [moving] })
    const flows = await moving.startMany(moves.map((_, n) => ({ n })))
    await w.clock.advance('1s')
    for (const flow of flows)
      await expect(flow.result({ timeout: 0 })).rejects.toMatchObject({ reason: 'option.invalid' })
  })

  test('a flow whose code never ends fails by its timeout, and can be tried again', async () => {
    const w = new FlowsHarness(store)
    let hangs = true
    const wait = (): Promise<void> => (hangs ? new Promise(() => undefined) : Promise.resolve())
    const body = workflow('body', numbered, { timeout: '2s', run: wait })
    const step = workflow('step', numbered, { timeout: '2s', run: (_input, flow) => flow.step('s', wait) })
    const steps = machine('steps', {
      states: { a: numbered },
      first: 'a',
      timeout: '2s',
      run: { a: async (_state, to) => (await wait(), to.done(undefined)) },
    })
    const engine = await w.start({ workflows: [body, step, steps] })
    for (const each of [body, step, steps]) {
      hangs = true
      const flow = await each.start({ n: 1 })
      const failed = flow.result().catch((error: unknown) => error)
      await w.clock.advance('1m')
      expect(await failed).toMatchObject({ code: 'flow.failed', reason: 'flow.timeout' })
      hangs = false
      expect(await engine.flows.retry(flow.id)).toBe(true)
      await w.clock.advance('1s')
      expect((await engine.flows.get(flow.id))?.state).toBe('completed')
      expect(await flow.result()).toBeUndefined()
    }
  })

  test('a flow that would remember too much fails, and its caller learns it', async () => {
    const w = new FlowsHarness(store)
    const large = workflow('large', numbered, {
      run: async (_input, flow) => {
        for (let i = 0; i < 18; i++) await flow.step(`s${i}`, () => 'x'.repeat(1_000_000))
      },
    })
    await w.start({ workflows: [large] })
    const flow = await large.start({ n: 1 })
    const failed = flow.result().catch((error: unknown) => error)
    await w.clock.advance('1s')
    expect(await failed).toMatchObject({ code: 'flow.failed', reason: 'flow.too_large' })
  })

  test('a join learns that the key of a child was taken', async () => {
    const w = new FlowsHarness(store)
    const kid = workflow('kid', numbered, { run: (_input, flow) => flow.sleep('s', '1s') })
    const start = (n: number): Child => child(kid, { n }, { key: 'same' })
    const joining = machine('joining', {
      states: { a: numbered, b: numbered },
      first: 'a',
      result: input<unknown>(),
      run: {
        a: (state, to) => to.join([start(1), start(2)], 'b', state),
        b: (_state, to) => to.done(to.children),
      },
    })
    await w.start({ workflows: [kid, joining] })
    const flow = await joining.start({ n: 1 })
    await w.clock.advance('5s')
    expect(await flow.result()).toMatchObject([{ ok: true }, { ok: false, error: { code: 'flow.conflict' } }])
  })
})
