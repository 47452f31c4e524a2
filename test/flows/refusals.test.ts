// Refusals of flows, and the ends of flows whose code is wrong.
import { describe, expect, test } from 'vitest'
import { input } from '../../src/exports/index.ts'
import { child, type Child, machine, workflow } from '../../src/exports/flows.ts'
import { MAX_UNREAD_SIGNALS } from '../../src/jobs/workflow.ts'
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
      // Options that could do nothing.
      (to) => to.next('b', {}, { within: '1s' }),
      (to) => to.wait(['paid'], 'b', {}, { delay: '1s' }),
      (to) => to.wait(['paid'], 'b', {}, { within: '1s', delay: '1s' }),
      (to) => to.join([], 'b', {}, { within: '1s' }),
      (to) => to.join([], 'b', {}, { delay: '1s' }),
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

  test('a caller that waits too short a time for a result learns it, and the flow continues', async () => {
    const w = new FlowsHarness(store)
    const slow = workflow('slow', numbered, { run: (_input, flow) => flow.sleep('s', '4s') })
    await w.start({ workflows: [slow] })
    const flow = await slow.start({ n: 1 })
    const early = flow.result({ timeout: '1s' }).catch((error: unknown) => error)
    await w.clock.advance('1s')
    expect(await early).toMatchObject({
      code: 'flow.result.timeout',
      message: expect.stringContaining(`The flow ${flow.id}`) as string,
      cause: { code: 'job.result.timeout' },
    })
    await w.clock.advance('4s')
    expect(await flow.result()).toBeUndefined()
  })

  // The store holds the bound, and its suite fills the inbox on every store.
  test.runIf(store.name === 'sqlite')('a full inbox refuses a signal by name', async () => {
    const w = new FlowsHarness(store)
    const idle = workflow('idle', numbered, {
      signals: { go: input<number>() },
      run: (_input, flow) => flow.sleep('s', '1h'),
    })
    const engine = await w.start({ workflows: [idle] })
    const flow = await idle.start({ n: 1 })
    await Promise.all(Array.from({ length: MAX_UNREAD_SIGNALS }, (_, n) => idle.signal(flow.id, 'go', n)))
    const full = {
      code: 'flow.inbox_full',
      message: `The flow ${flow.id} has 10,000 unread signals. The signal go was not stored.`,
    }
    await expect(idle.signal(flow.id, 'go', 0)).rejects.toMatchObject(full)
    await expect(engine.flows.signal(flow.id, 'go', 0)).rejects.toMatchObject(full)
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

  test('a flow that is started to outlive its starter is the one that has its key already, or is refused', async () => {
    const w = new FlowsHarness(store)
    const kid = workflow('kid', numbered, { run: (_input, flow) => flow.sleep('s', '1h') })
    const starter = workflow('starter', input<{ onConflict: 'join' | 'reject' }>(), {
      run: async ({ onConflict }, flow) => {
        const first = await flow.detach('first', kid, { n: 1 }, { key: 'own' })
        const joined = await flow.detach('again', kid, { n: 2 }, { key: 'own', onConflict })
        await flow.sleep('pause', '1s')
        return [first.id, joined.id]
      },
    })
    const engine = await w.start({ workflows: [kid, starter] })
    const flow = await starter.start({ onConflict: 'join' })
    await w.clock.advance('5s')
    const [kept] = await engine.flows.list({ workflow: 'kid' })
    expect(await flow.result({ timeout: 0 })).toEqual([kept?.id, kept?.id])
    const refused = await starter.start({ onConflict: 'reject' })
    await w.clock.advance('5s')
    await expect(refused.result({ timeout: 0 })).rejects.toMatchObject({ reason: 'flow.conflict' })
    expect(await engine.flows.list({ workflow: 'kid' })).toHaveLength(1)
  })
})

test('a signal whose name no code could await is refused where it is defined', () => {
  for (const name of ['~a', 'a#1', '', 'a\0b', 'x'.repeat(201)]) {
    const signals = { [name]: numbered }
    const body = (): unknown => workflow('body', numbered, { signals, run: async () => undefined })
    const states = (): unknown =>
      machine('states', {
        states: { a: numbered },
        signals,
        first: 'a',
        run: { a: (_state, to) => to.done(undefined) },
      })
    for (const define of [body, states]) expect(define).toThrow(expect.objectContaining({ code: 'option.invalid' }))
  }
})
