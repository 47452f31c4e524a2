// sluice.flows: what a flow is at, what it waits for, and what can be done to it, on every store.
import { describe, expect, test } from 'vitest'
import { call, input, limit, NonRetryable, task } from '../../src/exports/index.ts'
import { graph, machine, workflow } from '../../src/exports/flows.ts'
import { createEngineHarness } from '../engine/engine-harness.ts'
import { everyStore } from '../stores.ts'

const stores = await everyStore('looking at flows')
const numbered = input<{ n: number }>()
const UNKNOWN = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'

describe.each(stores)('looking at flows on $name', (store) => {
  const harness = () => ({ ...createEngineHarness(), url: store.create() })

  test('each of 17 flows that wait for a budget is told its limit, key, position and expected start', async () => {
    const { clock, start, url } = harness()
    const api = limit('api', { rate: 1, per: '10s', burst: 1 })
    const pay = workflow('pay', numbered, {
      run: ({ n }, flow) => flow.step('charge', { limits: [api.key('acme')] }, () => n),
    })
    const engine = await start({ store: url, tasks: [], workflows: [pay] })
    const flows = await pay.startMany(Array.from({ length: 18 }, (_, n) => ({ n })))
    await clock.advance('1s')
    expect(await engine.flows.inspect(flows[0]?.id ?? '')).toMatchObject({
      state: 'completed',
      result: 0,
      workflow: 'pay',
      steps: [{ name: 'charge', state: 'done', attempt: 1, result: 0, waitedMs: 0 }],
    })
    for (const [position, flow] of flows.entries()) {
      if (position === 0) continue
      const seen = await engine.flows.inspect(flow.id)
      expect(seen).toMatchObject({ state: 'running', result: null, finishedAt: null })
      const [step, ...others] = seen?.steps ?? []
      expect(others).toEqual([])
      expect(step).toMatchObject({
        name: 'charge',
        state: 'waiting',
        waitedMs: 1000,
        waitedFor: { limit: 'api', key: 'acme' },
        wait: { waitsOn: { limit: 'api', key: 'acme' }, position, linePosition: position, exact: true },
      })
      const expected = clock.now() - 1000 + position * 10_000
      expect(Math.abs((step?.wait?.expectedStart?.getTime() ?? 0) - expected)).toBeLessThanOrEqual(50)
      const told = await engine.flows.explain(flow.id)
      expect(told?.waits).toEqual([step])
      expect(told?.words).toBe(step?.wait?.words.replace('The job', 'The step charge'))
      expect(told?.words).toContain(`at position ${position}; it should start at `)
    }
    await clock.advance('3m')
    const last = await engine.flows.inspect(flows[17]?.id ?? '')
    expect(last).toMatchObject({ state: 'completed', steps: [{ state: 'done', waitedMs: 170_000 }] })
  })

  test('a body is shown at its sleeps, its signals, its parallel steps and its map', async () => {
    const { clock, start, url } = harness()
    const slow = limit('slow', { every: '10s' })
    const item = task('item', numbered, { limits: [slow], run: ({ n }) => n })
    const order = workflow('order', numbered, {
      signals: { approved: input<{ by: string }>() },
      async run({ n }, flow) {
        await flow.step('first', () => n)
        await flow.sleep('a while', '10s')
        const approval = await flow.signal('approved', { within: '1d' })
        const each = await flow.map('items', item, [{ n }, { n: n + 1 }, { n: n + 2 }])
        await Promise.all([
          flow.step('left', { limits: [slow] }, () => 1),
          flow.step('right', { limits: [slow] }, () => 2),
        ])
        return { approval, each }
      },
    })
    const engine = await start({ store: url, tasks: [item], workflows: [order] })
    const { id } = await order.start({ n: 1 }, { key: 'o-1' })
    const steps = async () => (await engine.flows.inspect(id))?.steps.map(({ name, state }) => `${name} ${state}`)
    await clock.advance('1s')
    expect(await steps()).toEqual(['first done', 'a while sleeping'])
    const wakes = new Date(clock.now() + 9000)
    expect((await engine.flows.inspect(id))?.steps[1]?.until).toEqual(wakes)
    expect((await engine.flows.explain(id))?.words).toBe(`The step a while sleeps until ${wakes.toISOString()}.`)
    await clock.advance('10s')
    expect(await steps()).toEqual(['first done', 'a while done', 'approved awaiting'])
    expect((await engine.flows.inspect(id))?.steps[2]).toMatchObject({ signals: ['approved'] })
    expect((await engine.flows.explain(id))?.words).toMatch(/^The step approved waits for the signal approved, until /)
    expect(await engine.flows.signal(id, 'approved', { by: 'ann' }, { once: 'e1' })).toEqual({ duplicate: false })
    expect(await engine.flows.signal({ key: 'o-1' }, 'approved', { by: 'ann' }, { once: 'e1' })).toEqual({
      duplicate: true,
    })
    await clock.advance('1s')
    expect(await steps()).toEqual(['first done', 'a while done', 'approved done', 'items waiting'])
    expect((await engine.flows.inspect(id))?.steps[3]).toMatchObject({ left: 2, waitedFor: { limit: 'slow' } })
    expect((await engine.flows.explain(id))?.words).toMatch(
      /^The step items waits for the budget of slow.* at position 1; .* 2 of its items have yet to end\.$/,
    )
    await clock.advance('19s')
    expect((await steps())?.slice(3)).toEqual(['items done', 'left waiting', 'right waiting'])
    const { words, waits } = (await engine.flows.explain(id)) ?? {}
    expect(waits?.map(({ wait }) => wait?.position)).toEqual([1, 2])
    expect(words).toMatch(/^The step left waits for .* at position 1; .*\. The step right waits for .* at position 2; /)
    await clock.advance('1m')
    expect((await engine.flows.explain(id))?.words).toMatch(/^The flow completed at /)
    expect(await engine.flows.inspect(id)).toMatchObject({
      result: { approval: { by: 'ann' }, each: [1, 2, 3] },
      key: 'o-1',
    })
  })

  test('a flow that waits for a child leads to the wait of the child, and is cancelled with it', async () => {
    const { clock, start, url } = harness()
    const slow = limit('slow', { every: '1h' })
    const inner = workflow('inner', numbered, {
      run: ({ n }, flow) => flow.step('deep', { limits: [slow] }, () => n),
    })
    const outer = workflow('outer', numbered, { run: ({ n }, flow) => flow.child('part', inner, { n }) })
    const engine = await start({ store: url, tasks: [], workflows: [outer, inner] })
    await inner.start({ n: 0 })
    await clock.advance('1s')
    const { id } = await outer.start({ n: 1 })
    await clock.advance('1s')
    const [part] = (await engine.flows.inspect(id))?.steps ?? []
    expect(part).toMatchObject({ name: 'part', state: 'awaiting', child: { workflow: 'inner', state: 'running' } })
    const child = part?.child?.id ?? ''
    expect(await engine.flows.get(child)).toMatchObject({ workflow: 'inner', parent: { id, step: 'part' } })
    expect((await engine.flows.explain(id))?.words).toMatch(
      new RegExp(
        `^The step part waits for its child ${child} of inner\\. Of the child: The step deep waits for the budget`,
      ),
    )
    expect(await engine.flows.cancel(id)).toBe(true)
    expect(await engine.flows.cancel(id)).toBe(false)
    expect(await engine.flows.get(child)).toMatchObject({ state: 'cancelled' })
    expect((await engine.flows.explain(id))?.words).toMatch(/^The flow was cancelled at /)
    expect(await engine.flows.inspect(id)).toMatchObject({ state: 'cancelled' })
  })

  test('a graph is shown with all its steps in their order, also those that were not reached', async () => {
    const { clock, start, url } = harness()
    const slow = limit('slow', { every: '10s' })
    const steps = graph('steps', numbered)
      .step('first', ({ input: { n } }) => n)
      .after('first')
      .step('left', { limits: [slow] }, () => 'left')
      .after('first')
      .step('never', { when: () => false }, () => 'never')
      .after('left', 'never')
      .sleep('pause', '10s')
      .after('pause')
      .step('last', ({ input: { n } }) => {
        if (n === 2) throw new NonRetryable('two')
        return 'end'
      })
      .after('last')
      .step('behind', () => null)
      .output(({ last }) => last)
    const engine = await start({ store: url, tasks: [], workflows: [steps] })
    const all = async (id: string) =>
      (await engine.flows.inspect(id))?.steps.map(({ name, state }) => `${name} ${state}`)
    await steps.start({ n: 0 })
    await clock.advance(0)
    const { id } = await steps.start({ n: 1 })
    await clock.advance('1s')
    const before = ['first done', 'left waiting', 'never skipped', 'pause pending', 'last pending', 'behind pending']
    expect(await all(id)).toEqual(before)
    const explained = await engine.flows.explain(id)
    expect(explained?.words).toMatch(/^The step left waits for the budget of slow, /)
    expect(explained?.waits.map(({ name }) => name)).toEqual(['left'])
    await clock.advance('10s')
    expect((await all(id))?.slice(1)).toEqual([
      'left done',
      'never skipped',
      'pause sleeping',
      'last pending',
      'behind pending',
    ])
    await clock.advance('1m')
    expect((await all(id))?.slice(3)).toEqual(['pause done', 'last done', 'behind done'])
    const failing = await steps.start({ n: 2 })
    await clock.advance('1m')
    expect((await all(failing.id))?.slice(4)).toEqual(['last failed', 'behind skipped'])
    const cancelled = await steps.start({ n: 3 })
    await clock.advance('1s')
    await engine.flows.cancel(cancelled.id)
    expect((await all(cancelled.id))?.slice(3)).toEqual(['pause skipped', 'last skipped', 'behind skipped'])
  })

  test('a machine is shown at its laps, its waits and its budgets', async () => {
    const { clock, start, url } = harness()
    const bank = limit('bank', { every: '1m' })
    const pay = machine('pay', {
      states: { charge: numbered, wait: numbered },
      signals: { stop: input<null>() },
      first: 'charge',
      limits: { charge: [bank] },
      run: {
        charge: ({ n }, to) => to.wait(['stop'], 'wait', { n: n + 1 }, { within: '30s' }),
        wait: (state, to) => (to.signals.length > 0 ? to.done() : to.next('charge', state)),
      },
    })
    const engine = await start({ store: url, tasks: [], workflows: [pay] })
    const { id } = await pay.start({ n: 0 })
    await clock.advance('1s')
    const seen = async () => (await engine.flows.inspect(id))?.steps.map(({ name, state }) => `${name} ${state}`)
    expect(await seen()).toEqual(['charge done', 'wait awaiting'])
    expect((await engine.flows.explain(id))?.words).toMatch(/^The step wait waits for the signal stop, until /)
    await clock.advance('30s')
    expect(await seen()).toEqual(['charge done', 'wait done', 'charge#2 waiting'])
    expect((await engine.flows.explain(id))?.words).toMatch(/^The step charge#2 waits for the budget of bank, /)
    await clock.advance('30s')
    await engine.flows.signal(id, 'stop', null)
    await clock.advance('1s')
    expect(await engine.flows.get(id)).toMatchObject({ state: 'completed' })
  })

  test('a failed flow goes on from where it failed, or from a step, and pays again', async () => {
    const { clock, start, url } = harness()
    const api = limit('api', { rate: 100, per: '1h', burst: 100 })
    const ran: string[] = []
    let broken = true
    const ten = workflow('ten', numbered, {
      defaults: { retry: { attempts: 1 } },
      async run(_, flow) {
        for (let i = 1; i <= 10; i++)
          await flow.step(`s${i}`, { limits: [api] }, () => {
            ran.push(`s${i}`)
            if (broken && i === 7) throw new NonRetryable('it is broken')
          })
      },
    })
    const engine = await start({ store: url, tasks: [], workflows: [ten] })
    const { id } = await ten.start({ n: 0 })
    await clock.advance('1s')
    const failed = await engine.flows.inspect(id)
    expect(failed).toMatchObject({ state: 'failed', steps: { length: 7 } })
    expect(failed?.steps[6]).toMatchObject({
      name: 's7',
      state: 'failed',
      error: { code: 'handler.nonretryable' },
    })
    expect((await engine.flows.explain(id))?.words).toMatch(/^The flow failed at .*it is broken/)
    await expect(engine.flows.retry(id, { from: 's11' })).rejects.toMatchObject({ code: 'flow.step_unknown' })
    expect(await engine.flows.retry(id)).toBe(true)
    await clock.advance('1s')
    expect(ran.splice(0).slice(7)).toEqual(['s7'])
    broken = false
    expect(await engine.flows.retry(id, { from: 's4' })).toBe(true)
    expect(await engine.flows.retry(id)).toBe(false)
    await clock.advance('1s')
    expect(ran).toEqual(['s4', 's5', 's6', 's7', 's8', 's9', 's10'])
    expect(await engine.flows.get(id)).toMatchObject({ state: 'completed', error: null })
    expect(await engine.limits.inspect('api')).toMatchObject([{ available: 100 - 15 }])
  })

  test('flows are listed by workflow, key and state, page by page', async () => {
    const { clock, start, url } = harness()
    const wait = workflow('wait', numbered, {
      key: ({ n }) => `k${n}`,
      signals: { go: input<null>() },
      run: async (_, flow) => void (await flow.signal('go')),
    })
    const other = workflow('other', numbered, { run: async () => undefined })
    const engine = await start({ store: url, tasks: [], workflows: [wait, other] })
    const flows = await wait.startMany(Array.from({ length: 7 }, (_, n) => ({ n })))
    await other.start({ n: 0 })
    await clock.advance('1s')
    const ids = flows.map(({ id }) => id).toReversed()
    expect((await engine.flows.list({ workflow: 'wait' })).map(({ id }) => id)).toEqual(ids)
    expect(await engine.flows.list({ key: 'k3' })).toMatchObject([{ id: flows[3]?.id, workflow: 'wait', key: 'k3' }])
    expect(await engine.flows.list({ states: ['completed'] })).toMatchObject([{ workflow: 'other' }])
    const found: string[] = []
    for (let cursor: string | null = null; ;) {
      const page: Awaited<ReturnType<typeof engine.flows.page>> = await engine.flows.page({
        workflow: 'wait',
        limit: 3,
        cursor,
      })
      found.push(...page.flows.map(({ id }) => id))
      cursor = page.cursor
      if (cursor === null) break
      await expect(engine.flows.page({ workflow: 'other', cursor })).rejects.toMatchObject({ code: 'option.invalid' })
    }
    expect(found).toEqual(ids)
  })

  test('what is unknown, ended or wrong is told as everywhere', async () => {
    const { clock, start, url } = harness()
    const wait = workflow('wait', numbered, {
      key: () => 'k',
      signals: { go: numbered },
      run: async (_, flow) => void (await flow.signal('go')),
    })
    const engine = await start({ store: url, tasks: [], workflows: [wait] })
    const { flows } = engine
    for (const id of [UNKNOWN, 'no id', 'a\0b']) {
      expect([await flows.get(id), await flows.inspect(id), await flows.explain(id)]).toEqual([null, null, null])
      for (const act of [() => flows.signal(id, 'go', null), () => flows.retry(id), () => flows.cancel(id)])
        await expect(act()).rejects.toMatchObject({ code: 'flow.not_found' })
    }
    await expect(flows.signal({ key: 'none' }, 'go', null)).rejects.toMatchObject({ code: 'flow.not_found' })
    await expect(flows.signal({ workflow: 'wait', key: 'none' }, 'go', { n: 1 })).rejects.toMatchObject({
      code: 'flow.not_found',
    })
    const { id } = await wait.start({ n: 1 })
    const wrong = [
      () => flows.signal(id, 'stop', null),
      () => flows.signal(id, 'go', null, { twice: 'e' } as never),
      () => flows.signal(id, 'go', null, { once: '' }),
      () => flows.signal({ flow: id } as never, 'go', null),
      () => flows.signal(id, '', null),
      () => flows.retry(id, { step: 's' } as never),
      () => flows.list({ workflow: 1 } as never),
      () => flows.list({ cursor: 'x' } as never),
      () => flows.page({ cursor: 'x' }),
      () => flows.inspect(1 as never),
    ]
    for (const each of wrong) await expect(each()).rejects.toMatchObject({ code: 'option.invalid' })
    await expect(flows.signal(id, 'go', 1n)).rejects.toMatchObject({ code: 'payload.unserialisable' })
    expect(await flows.retry(id)).toBe(false)
    await flows.signal({ key: 'k' }, 'go', { n: 1 })
    await clock.advance('1s')
    await expect(flows.signal(id, 'go', { n: 1 })).rejects.toMatchObject({ code: 'flow.ended' })
  })

  test('a chain is shown by its jobs, and is retried by them', async () => {
    const { clock, start, url } = harness()
    const note = task('note', numbered, { limits: [limit('api', { every: '1m' })], run: ({ n }) => n })
    const { flows } = await start({ store: url, tasks: [note], workflows: [] })
    const { id } = await flows.start({ kind: 'chain', steps: [call(note, { n: 1 }), call(note, { n: 2 })] })
    await clock.advance('1s')
    expect(await flows.inspect(id)).toMatchObject({
      kind: 'chain',
      workflow: null,
      result: null,
      steps: [
        { name: 'note', state: 'done', result: 1 },
        { name: 'note', state: 'waiting', wait: { position: 1, waitsOn: { limit: 'api' } } },
      ],
    })
    expect((await flows.explain(id))?.words).toMatch(/^The step note waits for the budget of api, /)
    await expect(flows.retry(id)).rejects.toMatchObject({ code: 'flow.invalid' })
    await expect(flows.signal(id, 'go', null)).rejects.toMatchObject({ code: 'flow.invalid' })
    expect(await flows.list({ workflow: 'note' })).toEqual([])
  })
})
