// How flows end: cancelled with all that they started, failed and tried again, stopped and gone on with elsewhere.
import { describe, expect, test } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import { again, child, machine, type Startable, type Steps, workflow } from '../../src/exports/flows.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()
const WIDE = { queues: { default: { concurrency: 100 } } }
const many = (count: number): { n: number }[] => Array.from({ length: count }, (_, n) => ({ n }))

describe.each(STORES)('the end of a flow on $name', (store) => {
  test('a cancel ends all that waits, aborts all that runs, and takes the children along', async () => {
    const w = new FlowsHarness(store)
    const five = limit('five', { concurrency: 5 })
    let aborted = 0
    const leaf = workflow('leaf', numbered, { run: (_input, flow) => flow.sleep('long', '1h') })
    const middle = workflow('middle', numbered, {
      run: (_input, flow) => Promise.all(many(3).map(({ n }) => flow.child(`leaf ${n}`, leaf, { n }))),
    })
    const top = workflow('top', numbered, {
      run: (_input, flow) =>
        Promise.all([
          ...many(3).map(({ n }) => flow.child(`middle ${n}`, middle, { n })),
          ...many(35).map(({ n }) =>
            flow.step(`s${n}`, { limits: [five] }, async ({ signal }) => {
              signal.addEventListener('abort', () => void aborted++)
              await w.clock.sleep('1h')
            }),
          ),
        ]),
    })
    const engine = await w.start({ workflows: [leaf, middle, top], ...WIDE })
    const flow = await top.start({ n: 0 })
    await w.clock.advance('1s')
    expect(await engine.flows.list({ states: ['running'], limit: 100 })).toMatchObject({ length: 13 })
    expect(await engine.flows.cancel(flow.id)).toBe(true)
    await w.clock.advance('200ms')
    expect(aborted).toBe(5)
    await expect(flow.result()).rejects.toMatchObject({ code: 'flow.cancelled' })
    const states = (await engine.flows.list({ limit: 100 })).map(({ state }) => state)
    expect(new Set(states)).toEqual(new Set(['cancelled']))
    const open = await engine.jobs.list({ states: ['available', 'pending', 'active', 'retryable', 'scheduled'] })
    expect(open).toEqual([])
    const [bucket] = await engine.limits.inspect('five')
    expect(bucket?.active ?? 0).toBe(0)
  })

  test('a flow that was ended while its body ran keeps that end, whatever the body returns', async () => {
    const w = new FlowsHarness(store)
    let open = (): void => undefined
    const gate = new Promise<void>((resolve) => (open = resolve))
    const deaf = workflow('deaf', numbered, {
      run: async ({ n }, flow) => {
        await flow.step('deaf', () => gate)
        if (n === 1) throw new Error('late')
        return 'late'
      },
    })
    const short = workflow('short', numbered, {
      timeout: '1s',
      run: async (_input, flow) => (await flow.step('deaf', () => gate), 'late'),
    })
    const engine = await w.start({ workflows: [deaf, short], ...WIDE })
    const flows = [await deaf.start({ n: 0 }), await deaf.start({ n: 1 }), await short.start({ n: 0 })]
    await w.clock.advance('500ms')
    for (const { id } of flows.slice(0, 2)) expect(await engine.flows.cancel(id)).toBe(true)
    await w.clock.advance('5s')
    open()
    await w.clock.advance('5s')
    const found = await Promise.all(flows.map(({ id }) => engine.flows.inspect(id)))
    expect(found.map((flow) => [flow?.state, flow?.result])).toEqual([
      ['cancelled', null],
      ['cancelled', null],
      ['failed', null],
    ])
    const ends = await Promise.allSettled(flows.map((flow) => flow.result({ timeout: 0 })))
    expect(ends).toMatchObject([
      { reason: { code: 'flow.cancelled' } },
      { reason: { code: 'flow.cancelled' } },
      { reason: { code: 'flow.failed', reason: 'flow.timeout' } },
    ])
  })

  test('a failed flow goes on from where it failed, and pays again', async () => {
    const w = new FlowsHarness(store)
    const hour = limit('hour', { rate: 3, per: '1h', burst: 3 })
    let broken = true
    const ten = workflow('ten', numbered, {
      defaults: { retry: { attempts: 1 } },
      run: async (_input, flow) => {
        for (let i = 1; i <= 10; i++)
          await flow.step(`s${i}`, i === 7 ? { limits: [hour] } : {}, () => {
            w.note(`s${i}`)
            if (i === 7 && broken) throw new Error('seven')
          })
        return 'ended'
      },
    })
    const engine = await w.start({ workflows: [ten] })
    const flow = await ten.start({ n: 1 })
    await w.clock.advance('1s')
    await expect(flow.result()).rejects.toMatchObject({ code: 'flow.failed' })
    broken = false
    w.starts.length = 0
    expect(await engine.flows.retry(flow.id)).toBe(true)
    await w.clock.advance('1s')
    expect(w.starts.map(({ step }) => step)).toEqual(['s7', 's8', 's9', 's10'])
    expect(await flow.result()).toBe('ended')
    const [bucket] = await engine.limits.inspect('hour')
    expect(bucket?.available).toBe(1)
    expect(await engine.flows.retry(flow.id)).toBe(false)
  })

  test('a failed flow goes on from a step that is named, and all behind it run again', async () => {
    const w = new FlowsHarness(store)
    let broken = true
    const run = (i: number): void => {
      w.note(`s${i}`)
      if (i === 7 && broken) throw new Error('seven')
    }
    const body = workflow('body', numbered, {
      defaults: { retry: { attempts: 1 } },
      run: async (_input, flow) => {
        for (let i = 1; i <= 10; i++) await flow.step(`s${i}`, () => run(i))
      },
    })
    const steps = Array.from({ length: 10 }, (_, i) => `s${i + 1}`)
    const states = machine('states', {
      states: Object.fromEntries(steps.map((step) => [step, numbered])),
      first: 's1',
      retry: { attempts: 1 },
      run: Object.fromEntries(
        steps.map((step, i) => [
          step,
          (state, to) => {
            run(i + 1)
            return i === 9 ? to.done() : to.next(`s${i + 2}`, state)
          },
        ]),
      ),
    })
    const engine = await w.start({ workflows: [body, states] })
    for (const each of [body, states]) {
      broken = true
      const flow = await each.start({ n: 1 })
      await w.clock.advance('1s')
      await expect(flow.result()).rejects.toMatchObject({ code: 'flow.failed' })
      broken = false
      w.starts.length = 0
      expect(await engine.flows.retry(flow.id, { from: 's4' })).toBe(true)
      await w.clock.advance('1s')
      expect(w.starts.map(({ step }) => step)).toEqual(steps.slice(3))
      expect(await flow.result()).toBeUndefined()
    }
  })

  test('a retry after new code fits the state of a machine', async () => {
    const w = new FlowsHarness(store)
    let isStrict = true
    const schema = {
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: (value: unknown) =>
          isStrict ? { issues: [{ message: 'old' }] } : { value: { ...(value as object), seen: true } },
      },
    }
    const late = machine('late', {
      states: { a: numbered, b: schema },
      first: 'a',
      result: input<unknown>(),
      run: { a: (state, to) => to.next('b', state as never, { delay: '1s' }), b: (state, to) => to.done(state) },
    })
    const engine = await w.start({ workflows: [late] })
    isStrict = false
    const flow = await late.start({ n: 1 })
    await w.clock.advance(0)
    isStrict = true
    await w.clock.advance('2s')
    await expect(flow.result()).rejects.toMatchObject({ reason: 'state.invalid' })
    isStrict = false
    expect(await engine.flows.retry(flow.id)).toBe(true)
    await w.clock.advance('2s')
    expect(await flow.result()).toEqual({ n: 1, seen: true })
  })

  test('flows go on in another process, in their order and within their budget', async () => {
    const w = new FlowsHarness(store)
    const two = limit('two', { rate: 2, per: '1s', burst: 2 })
    const queued = workflow('queued', numbered, {
      run: async ({ n }, flow) => {
        await flow.step('s', { limits: [two] }, () => w.note(`s${n}`))
        await flow.sleep('pause', '20s')
        await flow.step('t', () => w.note(`t${n}`))
      },
    })
    const first = await w.start({ workflows: [queued] })
    await queued.startMany(many(20))
    await w.clock.advance('3s')
    await w.stop(first)
    const stopped = w.at
    await w.clock.advance('2s')
    await w.start({ workflows: [queued] })
    await w.clock.advance('40s')
    const starts = w.starts.filter(({ step }) => step.startsWith('s'))
    expect(starts.map(({ step }) => step)).toEqual(many(20).map(({ n }) => `s${n}`))
    for (const [i, { at }] of starts.entries()) expect(i + 1).toBeLessThanOrEqual(2 + 2 * at + 0.001)
    expect(w.of('t0')[0]).toBeGreaterThanOrEqual(20)
    expect(w.of('t0')[0]).toBeLessThanOrEqual(21)
    expect(stopped).toBeLessThan(5)
    for (const { n } of many(20)) expect(w.of(`t${n}`)).toHaveLength(1)
  })

  test('two engines share the steps of flows, and each step runs once', async () => {
    const w = new FlowsHarness(store)
    const one = limit('one', { rate: 10, per: '1s', burst: 1 })
    const shared = workflow('shared', numbered, {
      run: async ({ n }, flow) => {
        const side = (i: number): Promise<number> =>
          flow.step(`side ${i}`, { limits: [one] }, () => (w.note(`${n}/${i}`), i))
        const sum = (await Promise.all([side(0), side(1), side(2)])).reduce((a, b) => a + b, 0)
        return sum + (await flow.step('last', { limits: [one] }, () => (w.note(`${n}/3`), 3)))
      },
    })
    await w.start({ workflows: [shared] })
    await w.start({ workflows: [shared] })
    const flows = await shared.startMany(many(10))
    await w.clock.advance('30s')
    for (const flow of flows) expect(await flow.result()).toBe(6)
    expect(w.starts).toHaveLength(40)
    expect(new Set(w.starts.map(({ step }) => step)).size).toBe(40)
  })

  test('a run that lost its lease is done again, with the same key, and holds what its flow holds', async () => {
    const w = new FlowsHarness(store)
    const one = limit('one', { concurrency: 1 })
    const keys: string[] = []
    let stall = true
    const held = workflow('held', numbered, {
      hold: [one],
      run: async ({ n }, flow) => {
        await flow.step('a', () => w.note(`a${n}`))
        await flow.step('b', async ({ key }) => {
          keys.push(key)
          if (!stall) return
          stall = false
          throw new Error('stalled')
        })
        await flow.sleep('pause', '10s')
      },
    })
    await w.start({ workflows: [held] })
    const [first, second] = await held.startMany(many(2))
    await w.clock.advance('30s')
    await first?.result()
    await second?.result()
    expect(new Set(keys).size).toBe(2)
    const [a0 = 0] = w.of('a0')
    const [a1 = 0] = w.of('a1')
    expect(a1 - a0).toBeGreaterThanOrEqual(10)
  })
})

describe.each(STORES)('hostile bodies on $name', (store) => {
  const bodies: readonly (readonly [string, (flow: Steps<{ go: typeof numbered }>) => Promise<unknown>, object])[] = [
    ['that catches everything', (flow) => flow.step('s', () => 1).catch(() => 0), { ok: 1 }],
    [
      'that swallows a failure for ever',
      async (flow) => {
        for (;;)
          try {
            return await flow.step('s', { retry: { attempts: 1 } }, ({ step }) => {
              if (step !== 's#3') throw new Error('no')
              return step
            })
          } catch {
            // Once more.
          }
      },
      { ok: 's#3' },
    ],
    ['that returns what JSON cannot hold', async () => 1n, { reason: 'payload.unserialisable' }],
    ['that returns a function', async () => () => 1, { reason: 'payload.unserialisable' }],
    ['that throws no error', () => Promise.reject(Object.create(null) as Error), { reason: 'handler.failed' }],
    ['with a result of 2 MiB', async () => 'x'.repeat(2 * 1_048_576), { reason: 'payload.too_large' }],
    [
      'with a step of 2 MiB',
      (flow) => flow.step('s', { retry: { attempts: 1 } }, () => 'x'.repeat(2 * 1_048_576)),
      { reason: 'payload.too_large' },
    ],
    [
      'with odd names',
      (flow) => flow.step('\u{1F600} ä/:%#', ({ key }) => key.split('/')[1]),
      { ok: '%F0%9F%98%80%20%C3%A4%2F%3A%25%23' },
    ],
    ['with an unknown signal', (flow) => flow.signal('gone' as 'go'), { reason: 'option.invalid' }],
    ['with a bad duration', (flow) => flow.sleep('s', 'soon' as '1s'), { reason: 'duration.invalid' }],
    ['with a bad date', (flow) => flow.sleepUntil('s', new Date(Number.NaN)), { reason: 'delay.invalid' }],
    ['with an unknown option', (flow) => flow.step('s', { limit: 1 } as object, () => 1), { reason: 'option.invalid' }],
    ['without code', (flow) => flow.step('s', undefined as never), { reason: 'option.invalid' }],
    [
      'that is too wide',
      (flow) => Promise.all(many(1001).map(({ n }) => flow.sleep(`s${n}`, '1s').then(() => n))).then(() => 'slept'),
      { ok: 'slept' },
    ],
    [
      'that begins again wrongly',
      async () => again({ n: 1n as unknown as number }),
      { reason: 'payload.unserialisable' },
    ],
  ]

  test.each(bodies)('a body %s', async (_name, run, expected) => {
    const w = new FlowsHarness(store)
    const hostile = workflow('hostile', numbered, { signals: { go: numbered }, run: (_input, flow) => run(flow) })
    const plain = task('plain', { run: () => w.note('plain') })
    await w.start({ workflows: [hostile], tasks: [plain] })
    const flow = await hostile.start({ n: 1 })
    await w.clock.advance('10s')
    const end = await flow.result().then(
      (ok) => ({ ok }),
      ({ reason }: { reason: string }) => ({ reason }),
    )
    expect(end).toEqual(expected)
    await plain.enqueue()
    await w.clock.advance(0)
    expect(w.of('plain')).toHaveLength(1)
  })

  test('more than 1,000 steps side by side are refused', async () => {
    const w = new FlowsHarness(store)
    const slow = limit('slow', { rate: 1, per: '1h' })
    const wide = workflow('wide', numbered, {
      run: (_input, flow) => Promise.all(many(1001).map(({ n }) => flow.step(`s${n}`, { limits: [slow] }, () => n))),
    })
    await w.start({ workflows: [wide] })
    const flow = await wide.start({ n: 1 })
    await w.clock.advance('1s')
    await expect(flow.result()).rejects.toMatchObject({ reason: 'flow.too_wide' })
  })

  test('a flow that starts itself as its child ends at the hundredth level', async () => {
    const w = new FlowsHarness(store)
    const deep: Startable<{ n: number }, number> = machine('deep', {
      states: { a: numbered, b: numbered },
      first: 'a',
      result: input<number>(),
      run: {
        a: (state, to) => to.join([child(deep, { n: state.n + 1 })], 'b', state),
        b: ({ n }, to) => to.done(n),
      },
    })
    const engine = await w.start({ workflows: [deep] })
    const flow = await deep.start({ n: 1 })
    await w.clock.advance('10s')
    await flow.result()
    const flows = await engine.flows.list({ limit: 1000 })
    expect(flows.length).toBeLessThanOrEqual(102)
    expect(flows.filter(({ state }) => state === 'running')).toEqual([])
  })
})
