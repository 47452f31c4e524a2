// Machines: each row of the acceptance cases for steps whose way is explicit, on every store and a manual clock.
import { describe, expect, test } from 'vitest'
import { input, limit } from '../../src/exports/index.ts'
import { child, machine } from '../../src/exports/flows.ts'
import { record } from '../engine/engine-harness.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()
const WIDE = { queues: { default: { concurrency: 1000 } } }
const many = (count: number): { n: number }[] => Array.from({ length: count }, (_, n) => ({ n }))

describe.each(STORES)('a machine on $name', (store) => {
  test('each step waits for its own budget, without a slot', async () => {
    const w = new FlowsHarness(store)
    const api = limit('api', { rate: 5, per: '10s', burst: 5 })
    const pay = machine('pay', {
      states: { prepare: numbered, charge: numbered },
      first: 'prepare',
      result: input<number>(),
      limits: { charge: [api] },
      run: {
        prepare: (state, to) => {
          w.note('prepare')
          return to.next('charge', state)
        },
        charge: ({ n }, to) => {
          w.note('charge')
          return to.done(n * 2)
        },
      },
    })
    await w.start({ workflows: [pay], queues: { default: { concurrency: 1 } } })
    const flows = await pay.startMany(many(8))
    await w.clock.advance('10s')
    expect(w.of('prepare')).toEqual([0, 0, 0, 0, 0, 0, 0, 0])
    expect(w.of('charge')).toEqual([0, 0, 0, 0, 0, 2, 4, 6])
    expect(await Promise.all(flows.map((flow) => flow.result()))).toEqual([0, 2, 4, 6, 8, 10, 12, 14])
  })

  test('each attempt of a step pays again', async () => {
    const w = new FlowsHarness(store)
    const year = limit('year', { rate: 5, per: '365d', burst: 5 })
    let fails = 1
    const charge = machine('charge', {
      states: { first: numbered, charge: numbered },
      first: 'first',
      limits: { charge: [year.weight(2)] },
      retry: { attempts: 3, backoff: 'fixed', initial: '100ms', jitter: false },
      run: {
        first: (state, to) => to.next('charge', state),
        charge: (_state, to) => {
          w.note('charge')
          if (fails-- > 0) throw new Error('not yet')
          return to.done()
        },
      },
    })
    const engine = await w.start({ workflows: [charge] })
    await charge.start({ n: 1 })
    await w.clock.advance('1s')
    await charge.start({ n: 2 })
    await w.clock.advance('1m')
    expect(w.of('charge')).toEqual([0, 0.1])
    const [bucket] = await engine.limits.inspect('year')
    expect(bucket?.available).toBe(1)
  })

  test('a step without limits of its own needs no budget, also after one that has some', async () => {
    const w = new FlowsHarness(store)
    const slow = limit('slow', { rate: 1, per: '1h' })
    const log = machine('log', {
      states: { charge: numbered, log: numbered },
      first: 'charge',
      limits: { charge: [slow] },
      run: {
        charge: (state, to) => to.next('log', state),
        log: (_state, to) => {
          w.note('log')
          return to.done()
        },
      },
    })
    await w.start({ workflows: [log] })
    await log.startMany(many(2))
    await w.clock.advance('1s')
    expect(w.of('log')).toEqual([0])
  })

  test('limits of a start hold for the first step and its retries, and not after it', async () => {
    const w = new FlowsHarness(store)
    const second = limit('second', { rate: 1, per: '1s' })
    let again = 2
    const first = machine('first', {
      states: { a: numbered, b: numbered },
      first: 'a',
      run: {
        a: (state, to) => {
          w.note('a')
          return again-- > 0 ? to.retry() : to.next('b', state)
        },
        b: (_state, to) => {
          w.note('b')
          return to.done()
        },
      },
    })
    await w.start({ workflows: [first] })
    await first.start({ n: 1 }, { limits: [second] })
    await w.clock.advance('10s')
    expect(w.of('a')).toEqual([0, 1, 2])
    expect(w.of('b')).toEqual([2])
  })

  test('limits of a move count beside those of its step, and are computed from the next state', async () => {
    const w = new FlowsHarness(store)
    const each = limit('each', { rate: 1, per: '1s' })
    const all = limit('all', { rate: 2, per: '10s', burst: 2 })
    const keyed = machine('keyed', {
      states: { a: numbered, b: input<{ key: string }>() },
      first: 'a',
      limits: { b: [all] },
      run: {
        a: ({ n }, to) => to.next('b', { key: `k${n % 2}` }, { limits: [each.by(({ key }) => key)] }),
        b: ({ key }, to) => {
          w.note(key)
          return to.done()
        },
      },
    })
    await w.start({ workflows: [keyed], ...WIDE })
    await keyed.startMany(many(4))
    await w.clock.advance('60s')
    expect([w.of('k0'), w.of('k1')]).toEqual([
      [0, 5],
      [0, 10],
    ])
  })

  test('a step behind a wait or a join is limited like any other', async () => {
    const w = new FlowsHarness(store)
    const slow = limit('slow', { rate: 1, per: '10s' })
    const nap = machine('nap', {
      states: { sleep: numbered, done: numbered },
      first: 'sleep',
      run: {
        sleep: (state, to) => to.next('done', state, { delay: '5s' }),
        done: (_state, to) => to.done(),
      },
    })
    const wait = machine('wait', {
      states: { a: numbered, b: numbered },
      signals: { go: input<null>() },
      first: 'a',
      limits: { b: [slow] },
      run: {
        a: (state, to) => to.wait(['go'], 'b', state),
        b: (_state, to) => {
          w.note('waited')
          return to.done()
        },
      },
    })
    const join = machine('join', {
      states: { a: numbered, b: numbered },
      first: 'a',
      limits: { b: [slow] },
      run: {
        a: (state, to) => to.join([child(nap, { n: 1 })], 'b', state),
        b: (_state, to) => {
          w.note('joined')
          return to.done()
        },
      },
    })
    await w.start({ workflows: [nap, wait, join] })
    const waiting = await wait.start({ n: 1 })
    await join.start({ n: 1 })
    await w.clock.advance('5s')
    await wait.signal(waiting.id, 'go', null)
    await w.clock.advance('60s')
    expect(w.of('waited', 'joined')).toEqual([5, 15])
  })

  test('a weight that can never start fails its flow at once, and no other waits for it', async () => {
    const w = new FlowsHarness(store)
    const five = limit('five', { rate: 5, per: '1s', burst: 5 })
    const heavy = machine('heavy', {
      states: { a: numbered, b: numbered },
      first: 'a',
      run: {
        a: (state, to) => to.next('b', state, { limits: [five.by(() => 'k', { weight: ({ n }) => n })] }),
        b: ({ n }, to) => {
          w.note(`b${n}`)
          return to.done()
        },
      },
    })
    await w.start({ workflows: [heavy], ...WIDE })
    const [flow] = await heavy.startMany([{ n: 6 }, { n: 1 }, { n: 1 }, { n: 1 }])
    await w.clock.advance('50ms')
    await expect(flow?.result()).rejects.toMatchObject({ code: 'flow.failed', reason: 'limit.weight.above_burst' })
    expect(w.of('b1')).toEqual([0, 0, 0])
  })

  test.each([
    [0, 'limit.weight.invalid'],
    [-1, 'limit.weight.invalid'],
    [Number.NaN, 'limit.weight.invalid'],
  ])('a weight of %s fails the flow, and the engine works on', async (weight, reason) => {
    const w = new FlowsHarness(store)
    const five = limit('five', { rate: 5, per: '1s', burst: 5 })
    const odd = machine('odd', {
      states: { a: numbered, b: numbered },
      first: 'a',
      run: {
        a: (state, to) => to.next('b', state, { limits: [five.by(() => 'k', { weight: () => state.n })] }),
        b: (_state, to) => to.done(),
      },
    })
    await w.start({ workflows: [odd] })
    const bad = await odd.start({ n: weight })
    const good = await odd.start({ n: 1 })
    await w.clock.advance(0)
    // NaN is null once it was stored.
    await expect(bad.result()).rejects.toMatchObject({ reason })
    expect(await good.result()).toBeUndefined()
  })

  test('a missing key fails the flow at the move', async () => {
    const w = new FlowsHarness(store)
    const keyed = limit('keyed', { rate: 1, per: '1s' })
    const lost = machine('lost', {
      states: { a: numbered, b: input<{ key?: string }>() },
      first: 'a',
      limits: { b: [keyed.by((state: { key?: string }) => state.key)] },
      run: { a: (_state, to) => to.next('b', {}), b: (_state, to) => to.done() },
    })
    await w.start({ workflows: [lost] })
    const flow = await lost.start({ n: 1 })
    await w.clock.advance(0)
    await expect(flow.result()).rejects.toMatchObject({ reason: 'limit.key.missing' })
  })

  test('a heavy step at the head goes first, across queues', async () => {
    const w = new FlowsHarness(store)
    const five = limit('five', { rate: 5, per: '1s', burst: 5 })
    const weighed = machine('weighed', {
      states: { a: numbered, b: numbered },
      first: 'a',
      run: {
        a: (state, to) => {
          const heavy = state.n === 5
          return to.next('b', state, {
            limits: [five.by(() => 'k', { weight: ({ n }) => n })],
            queue: heavy ? 'heavy' : 'light',
          })
        },
        b: ({ n }, to) => {
          w.note(n === 5 ? 'heavy' : 'light')
          return to.done()
        },
      },
    })
    await w.start({
      workflows: [weighed],
      queues: { default: { concurrency: 1000 }, heavy: { concurrency: 1 }, light: { concurrency: 1000 } },
    })
    await weighed.start({ n: 5 })
    await w.clock.advance(0)
    expect(w.of('heavy')).toEqual([0])
    await weighed.start({ n: 5 })
    await w.clock.advance(0)
    await weighed.startMany(Array.from({ length: 500 }, () => ({ n: 1 })))
    await w.clock.advance('3s')
    expect(w.of('heavy')).toEqual([0, 1])
    expect(w.of('light')[0]).toBe(1.2)
  })

  test.each([0.7, 1, 1.5, 2, 3, 5, 8])('steps of one per %d s start when they may', async (seconds) => {
    const w = new FlowsHarness(store)
    const pace = limit('pace', { rate: 1, per: `${seconds * 1000}ms`, burst: 1 })
    const paced = machine('paced', {
      states: { a: numbered, b: numbered },
      first: 'a',
      limits: { b: [pace] },
      run: {
        a: (state, to) => to.next('b', state),
        b: (_state, to) => {
          w.note('b')
          return to.done()
        },
      },
    })
    await w.start({ workflows: [paced], ...WIDE })
    await paced.startMany(many(100))
    await w.clock.advance('60s')
    const count = Math.min(100, Math.floor(60 / seconds) + 1)
    const starts = w.of('b')
    expect(starts).toHaveLength(count)
    for (const [i, at] of starts.entries()) expect(Math.abs(at - i * seconds)).toBeLessThan(0.001)
  })
})

describe.each(STORES)('what a machine waits for on $name', (store) => {
  test('a join goes on when all children have ended, once, with each end in the order given', async () => {
    const w = new FlowsHarness(store)
    const nap = machine('nap', {
      states: { sleep: numbered, end: numbered },
      first: 'sleep',
      result: input<number>(),
      run: {
        sleep: (state, to) => to.next('end', state, { delay: `${state.n}s` }),
        end: ({ n }, to) => (n === 1 ? to.fail(new Error('too short')) : to.done(n)),
      },
    })
    const join = machine('join', {
      states: { a: numbered, b: numbered },
      first: 'a',
      result: input<unknown>(),
      run: {
        a: (state, to) =>
          to.join(
            [3, 1, 2].map((n) => child(nap, { n })),
            'b',
            state,
          ),
        b: (_state, to) => {
          w.note('b')
          return to.done(to.children)
        },
      },
    })
    await w.start({ workflows: [nap, join] })
    const flow = await join.start({ n: 0 })
    await w.clock.advance('1m')
    expect(w.of('b')).toEqual([3])
    const failed = {
      ok: false,
      error: { code: 'handler.failed', message: 'The step "end" failed in attempt 1: Error: too short' },
    }
    expect(await flow.result()).toEqual([{ ok: true, value: 3 }, failed, { ok: true, value: 2 }])
  })

  test('a join of no children goes on at once', async () => {
    const w = new FlowsHarness(store)
    const join = machine('join', {
      states: { a: numbered, b: numbered },
      first: 'a',
      result: input<number>(),
      run: { a: (state, to) => to.join([], 'b', state), b: (_state, to) => to.done(to.children.length) },
    })
    await w.start({ workflows: [join] })
    const flow = await join.start({ n: 0 })
    await w.clock.advance(0)
    expect(await flow.result()).toBe(0)
  })

  test('signals are handed over once, in their order; a repeated one does nothing', async () => {
    const w = new FlowsHarness(store)
    const inbox = machine('inbox', {
      states: { a: numbered, b: numbered },
      signals: { go: input<string>(), other: input<string>() },
      first: 'a',
      key: ({ n }) => `k${n}`,
      result: input<unknown>(),
      run: {
        a: (state, to) => to.wait(['go'], 'b', state, { within: '1m' }),
        b: (state, to) => {
          w.note(to.signals.map(({ payload }) => payload).join())
          return state.n > 2 ? to.done(to.signals) : to.wait(['go'], 'b', { n: state.n + 1 }, { within: '1m' })
        },
      },
    })
    await w.start({ workflows: [inbox] })
    const flow = await inbox.start({ n: 1 })
    await w.clock.advance('1s')
    await inbox.signal({ key: 'k1' }, 'other', 'never')
    const answers = []
    for (const once of ['e1', 'e1', 'e1', 'e2']) {
      answers.push(await inbox.signal({ key: 'k1' }, 'go', once, { once }))
      await w.clock.advance('1s')
    }
    expect(answers.map(({ duplicate }) => duplicate)).toEqual([false, true, true, false])
    expect(w.starts.map(({ step }) => step)).toEqual(['e1', 'e2'])
    await w.clock.advance('2m')
    expect(w.starts.at(-1)).toEqual({ step: '', at: 64 })
    expect(await flow.result()).toEqual([])
    await expect(inbox.signal({ key: 'k1' }, 'go', 'late')).rejects.toMatchObject({ code: 'flow.not_found' })
    await expect(inbox.signal(flow.id, 'go', 'late')).rejects.toMatchObject({ code: 'flow.ended' })
    const unknown = '019a0000-0000-7000-8000-000000000000'
    await expect(inbox.signal(unknown, 'go', 'x')).rejects.toMatchObject({ code: 'flow.not_found' })
  })

  test('a signal that came before the wait, or just after its end, is handed over by the next wait', async () => {
    const w = new FlowsHarness(store)
    const early = machine('early', {
      states: { a: numbered, b: numbered, c: numbered },
      signals: { go: input<string>() },
      first: 'a',
      run: {
        a: (state, to) => to.next('b', state, { delay: '10s' }),
        b: (state, to) => to.wait(['go'], 'c', state, { within: '1m' }),
        c: (state, to) => {
          w.note(to.signals.map(({ payload }) => payload).join())
          return state.n === 3 ? to.done() : to.wait(['go'], 'c', { n: state.n + 1 }, { within: '1m' })
        },
      },
    })
    await w.start({ workflows: [early] })
    const flow = await early.start({ n: 1 })
    await early.signal(flow.id, 'go', 'first')
    await w.clock.advance('10s')
    expect(w.starts).toEqual([{ step: 'first', at: 10 }])
    await w.clock.advance('1m')
    expect(w.starts.at(-1)).toEqual({ step: '', at: 70 })
    await w.clock.advance(1)
    await early.signal(flow.id, 'go', 'late')
    await w.clock.advance(1)
    expect(w.starts.at(-1)?.step).toBe('late')
  })

  test('a step that asks to be run again keeps its signals', async () => {
    const w = new FlowsHarness(store)
    let again = true
    const keep = machine('keep', {
      states: { a: numbered, b: numbered },
      signals: { go: input<string>() },
      first: 'a',
      result: input<unknown>(),
      run: {
        a: (state, to) => to.wait(['go'], 'b', state),
        b: (_state, to) => {
          if (!again) return to.done(to.signals)
          again = false
          return to.retry({ delay: '1s' })
        },
      },
    })
    await w.start({ workflows: [keep] })
    const flow = await keep.start({ n: 1 })
    await keep.signal(flow.id, 'go', 'x')
    await w.clock.advance('5s')
    expect(await flow.result()).toEqual([{ name: 'go', payload: 'x' }])
  })
})

describe.each(STORES)('a machine as a whole on $name', (store) => {
  test('what it holds stays with it until it ends', async () => {
    const w = new FlowsHarness(store)
    const one = limit('one', { concurrency: 1 })
    const held = machine('held', {
      states: { a: numbered, b: numbered },
      first: 'a',
      hold: [one.by(({ n }) => `c${n % 2}`)],
      run: {
        a: (state, to) => {
          w.note(`a${state.n}`)
          return to.next('b', state, { delay: '10s' })
        },
        b: (_state, to) => to.done(),
      },
    })
    await w.start({ workflows: [held] })
    await held.startMany([{ n: 0 }, { n: 2 }, { n: 4 }, { n: 1 }])
    await w.clock.advance('1m')
    expect(w.starts).toEqual([
      { step: 'a0', at: 0 },
      { step: 'a1', at: 0 },
      { step: 'a2', at: 10 },
      { step: 'a4', at: 20 },
    ])
  })

  test('a key has one running flow', async () => {
    const w = new FlowsHarness(store)
    const keyed = machine('keyed', {
      states: { a: numbered },
      first: 'a',
      key: ({ n }) => `k${n}`,
      result: input<number>(),
      run: { a: ({ n }, to) => to.done(n) },
    })
    const engine = w.create({ workflows: [keyed] })
    const all = await Promise.all(many(50).map(() => keyed.start({ n: 1 })))
    expect(new Set(all.map((flow) => flow.id)).size).toBe(1)
    expect(all.filter((flow) => flow.duplicate)).toHaveLength(49)
    await expect(keyed.start({ n: 1 }, { onConflict: 'reject' })).rejects.toMatchObject({ code: 'flow.conflict' })
    await engine.start()
    await w.clock.advance(0)
    expect(await all[7]?.result()).toBe(1)
    expect((await keyed.start({ n: 1 })).duplicate).toBe(false)
  })

  test('a state that does not match its schema fails the flow', async () => {
    const w = new FlowsHarness(store)
    const strict = {
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: (value: unknown) =>
          typeof value === 'object' && value !== null && 'x' in value
            ? { value: value as { x: number } }
            : { issues: [{ message: 'x is missing' }] },
      },
    }
    const checked = machine('checked', {
      states: { a: numbered, b: strict },
      first: 'a',
      run: { a: (_state, to) => to.next('b', {} as never), b: (_state, to) => to.done() },
    })
    await w.start({ workflows: [checked] })
    const flow = await checked.start({ n: 1 })
    await w.clock.advance(0)
    await expect(flow.result()).rejects.toMatchObject({ code: 'flow.failed', reason: 'state.invalid' })
  })

  test('its last failed attempt fails the flow, and names the step', async () => {
    const w = new FlowsHarness(store)
    const bad = machine('bad', {
      states: { a: numbered, b: numbered },
      first: 'a',
      retry: { attempts: 3, backoff: 'fixed', initial: '1s', jitter: false },
      run: {
        a: (state, to) => to.next('b', state),
        b: () => {
          w.note('b')
          throw new Error('no')
        },
      },
    })
    const engine = await w.start({ workflows: [bad] })
    const events = record(engine, 'step.started', 'step.completed', 'step.retrying', 'step.failed', 'flow.failed')
    const flow = await bad.start({ n: 1 })
    await w.clock.advance('1m')
    expect(w.of('b')).toEqual([0, 1, 2])
    await expect(flow.result()).rejects.toMatchObject({ code: 'flow.failed', reason: 'handler.failed' })
    expect(events.map(({ name, event }) => [name, 'step' in event ? `${event.step} ${event.attempt}` : ''])).toEqual([
      ['step.started', 'a 1'],
      ['step.completed', 'a 1'],
      ['step.started', 'b 1'],
      ['step.retrying', 'b 1'],
      ['step.started', 'b 2'],
      ['step.retrying', 'b 2'],
      ['step.started', 'b 3'],
      ['step.failed', 'b 3'],
      ['flow.failed', 'b 3'],
    ])
  })

  test('the key of a step is the same at each attempt, and another at each visit', async () => {
    const w = new FlowsHarness(store)
    const keys: string[] = []
    let fails = 1
    const loop = machine('loop', {
      states: { a: numbered, b: numbered },
      first: 'a',
      retry: { backoff: 'none' },
      run: {
        a: (state, to) => to.next('b', state),
        b: ({ n }, to) => {
          keys.push(to.key)
          if (fails-- > 0) throw new Error('once')
          return n === 2 ? to.done() : to.next('a', { n: 2 })
        },
      },
    })
    await w.start({ workflows: [loop] })
    const { id } = await loop.start({ n: 1 })
    await w.clock.advance('1m')
    expect(keys).toEqual([`${id}/b`, `${id}/b`, `${id}/b%232`])
  })
})
