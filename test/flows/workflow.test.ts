// Workflows: steps by name, on every store and a manual clock.
import { describe, expect, test } from 'vitest'
import { input, limit, NonRetryable, RateLimited, task } from '../../src/exports/index.ts'
import { again, StepFailed, workflow } from '../../src/exports/flows.ts'
import { record } from '../engine/engine-harness.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const numbered = input<{ n: number }>()
const WIDE = { queues: { default: { concurrency: 1000 } } }
const many = (count: number): { n: number }[] => Array.from({ length: count }, (_, n) => ({ n }))
const FIXED = { backoff: 'fixed', initial: '1s', jitter: false } as const

describe.each(STORES)('the steps of a workflow on $name', (store) => {
  test('each runs once, and every limited one waits for its budget without a slot', async () => {
    const w = new FlowsHarness(store)
    const second = limit('second', { rate: 1, per: '1s' })
    let entries = 0
    const ten = workflow('ten', numbered, {
      run: async ({ n }, flow) => {
        entries++
        let sum = n
        for (let i = 0; i < 10; i++) {
          const run = (): number => (w.note(`s${i}`), i)
          sum += i % 2 === 1 ? await flow.step(`s${i}`, { limits: [second] }, run) : await flow.step(`s${i}`, run)
        }
        return sum
      },
    })
    await w.start({ workflows: [ten], queues: { default: { concurrency: 1 } } })
    const flow = await ten.start({ n: 100 })
    await w.clock.advance('10s')
    expect(w.starts.map(({ step, at }) => `${step} ${at}`)).toEqual([
      's0 0',
      's1 0',
      's2 0',
      's3 1',
      's4 1',
      's5 2',
      's6 2',
      's7 3',
      's8 3',
      's9 4',
    ])
    expect(await flow.result()).toBe(145)
    expect(entries).toBeLessThanOrEqual(6)
  })

  test('flows that wait for a budget hold no slot', async () => {
    const w = new FlowsHarness(store)
    const closed = limit('closed', { rate: 1, per: '365d' })
    const waiting = workflow('waiting', numbered, {
      run: (_input, flow) => flow.step('s', { limits: [closed] }, () => w.note('s')),
    })
    const plain = task('plain', { run: () => w.note('plain') })
    const engine = await w.start({ workflows: [waiting], tasks: [plain], queues: { default: { concurrency: 1 } } })
    await waiting.startMany(many(50))
    await w.clock.advance(0)
    expect(w.of('s')).toEqual([0])
    await plain.enqueue()
    await w.clock.advance(0)
    expect(w.of('plain')).toEqual([0])
    expect(await engine.jobs.list({ states: ['active'] })).toEqual([])
  })

  test('several limits admit a step together, or none is charged', async () => {
    const w = new FlowsHarness(store)
    const all = limit('all', { rate: 100, per: '10s', burst: 100 })
    const tenant = limit('tenant', { rate: 5, per: '10s', burst: 5 })
    const both = workflow('both', input<{ t: string }>(), {
      run: ({ t }, flow) => flow.step('s', { limits: [all, tenant.key(t)] }, () => w.note(t)),
    })
    await w.start({ workflows: [both], ...WIDE })
    await both.startMany(Array.from({ length: 50 }, () => ({ t: 'A' })))
    await w.clock.advance(0)
    for (let i = 0; i < 19; i++) await both.startMany(Array.from({ length: 5 }, () => ({ t: `t${i}` })))
    await w.clock.advance(0)
    expect(w.of('A')).toHaveLength(5)
    expect(w.starts).toHaveLength(100)
    await w.clock.advance('2s')
    expect(w.starts.slice(100)).toEqual([{ step: 'A', at: 2 }])
  })

  test('steps side by side wait each for its own budget; the results have the order asked for', async () => {
    const w = new FlowsHarness(store)
    const second = limit('second', { rate: 1, per: '1s' })
    const side = workflow('side', numbered, {
      run: (_input, flow) => {
        const limited = (name: string): Promise<string> =>
          flow.step(name, { limits: [second] }, () => (w.note('limited'), name))
        const free = flow.step('free', () => (w.note('free'), 'free'))
        return Promise.all([limited('a'), limited('b'), limited('c'), free])
      },
    })
    await w.start({ workflows: [side] })
    const flow = await side.start({ n: 1 })
    await w.clock.advance('5s')
    expect(w.of('free')).toEqual([0])
    expect(w.of('limited')).toEqual([0, 1, 2])
    expect(await flow.result()).toEqual(['a', 'b', 'c', 'free'])
  })

  test('a step that fails is tried again and pays again; the last failure can be caught', async () => {
    const w = new FlowsHarness(store)
    const two = limit('two', { rate: 1, per: '2s' })
    const fails = workflow('fails', numbered, {
      run: async (_input, flow) => {
        try {
          await flow.step('bad', { limits: [two], retry: { attempts: 3, ...FIXED } }, () => {
            w.note('bad')
            throw new Error('no')
          })
          return 'never'
        } catch (error) {
          if (!(error instanceof StepFailed)) throw error
          const { step, reason, code } = error
          return flow.step('undo', () => ({ step, reason, code }))
        }
      },
    })
    await w.start({ workflows: [fails] })
    const flow = await fails.start({ n: 1 })
    await w.clock.advance('30s')
    expect(w.of('bad')).toEqual([0, 2, 4])
    expect(await flow.result()).toEqual({ step: 'bad', reason: 'handler.failed', code: 'step.failed' })
  })

  test('a step without limits is tried again after its back-off, alone and beside others', async () => {
    const w = new FlowsHarness(store)
    const attempts: number[] = []
    const retried = workflow('retried', numbered, {
      defaults: { retry: { attempts: 3, ...FIXED } },
      run: (_input, flow) => {
        const twice = (name: string): Promise<number> =>
          flow.step(name, (step) => {
            w.note(name)
            attempts.push(step.attempt)
            if (step.attempt < 3) throw new Error('not yet')
            return step.attempt
          })
        return twice('a').then(() => Promise.all([twice('b'), twice('c')]))
      },
    })
    await w.start({ workflows: [retried] })
    const flow = await retried.start({ n: 1 })
    await w.clock.advance('30s')
    expect(w.of('a')).toEqual([0, 1, 2])
    expect([w.of('b'), w.of('c')]).toEqual([
      [2, 3, 4],
      [2, 3, 4],
    ])
    expect(attempts.slice(0, 3)).toEqual([1, 2, 3])
    expect(await flow.result()).toEqual([3, 3])
  })

  test('an error that allows no retry, and one that the body does not catch, fail the flow with its code', async () => {
    const w = new FlowsHarness(store)
    const final = workflow('final', numbered, {
      run: (_input, flow) =>
        flow.step('bad', () => {
          w.note('bad')
          throw new NonRetryable('never')
        }),
    })
    await w.start({ workflows: [final] })
    const flow = await final.start({ n: 1 })
    await w.clock.advance('30s')
    expect(w.of('bad')).toEqual([0])
    await expect(flow.result()).rejects.toMatchObject({ code: 'flow.failed', reason: 'handler.nonretryable' })
  })

  test('an error of the body itself fails the flow at once', async () => {
    const w = new FlowsHarness(store)
    let entries = 0
    const thrown = workflow('thrown', numbered, {
      run: async (_input, flow) => {
        entries++
        await flow.step('a', () => 1)
        throw new RangeError('the body')
      },
    })
    await w.start({ workflows: [thrown] })
    const flow = await thrown.start({ n: 1 })
    await w.clock.advance('30s')
    await expect(flow.result()).rejects.toThrow(/RangeError: the body/)
    expect(entries).toBe(1)
  })

  test('a push-back closes the budget of its key for all flows and tasks, and uses no attempt', async () => {
    const w = new FlowsHarness(store)
    const api = limit('api', { rate: 100, per: '1s', burst: 100 })
    let refused = false
    const attempts: number[] = []
    const pushed = workflow('pushed', input<{ key: string }>(), {
      run: ({ key }, flow) =>
        flow.step('s', { limits: [api.key(key)], retry: { attempts: 1 } }, (step) => {
          w.note(key)
          attempts.push(step.attempt)
          if (key === 'A' && !refused) {
            refused = true
            throw new RateLimited({ retryAfter: '5s' })
          }
        }),
    })
    const plain = task('plain', { limits: [api.key('A')], run: () => w.note('plain') })
    await w.start({ workflows: [pushed], tasks: [plain], queues: { default: { concurrency: 1 } } })
    await pushed.start({ key: 'A' })
    await w.clock.advance(0)
    await pushed.startMany([{ key: 'A' }, { key: 'B' }])
    await plain.enqueue()
    await w.clock.advance('10s')
    expect(w.of('B')).toEqual([0])
    const [first, ...later] = [...w.of('A'), ...w.of('plain')].toSorted((a, b) => a - b)
    expect(first).toBe(0)
    expect(later.map((at) => Math.floor(at * 10) / 10)).toEqual([5, 5, 5])
    expect(attempts).toEqual([1, 1, 1, 1])
  })

  test('a name is refused side by side, and counted one after the other', async () => {
    const w = new FlowsHarness(store)
    const second = limit('second', { rate: 1, per: '1s' })
    const repeated = workflow('repeated', numbered, {
      run: async ({ n }, flow) => {
        const send = (): Promise<string> => flow.step('send', { limits: [second] }, ({ step }) => (w.note(step), step))
        return n === 0 ? Promise.all([send(), send()]) : [await send(), await send(), await send()]
      },
    })
    await w.start({ workflows: [repeated] })
    const [bad, good] = await repeated.startMany([{ n: 0 }, { n: 1 }])
    await w.clock.advance('10s')
    await expect(bad?.result()).rejects.toMatchObject({ reason: 'step.name.repeated' })
    expect(await good?.result()).toEqual(['send', 'send#2', 'send#3'])
  })

  test('a step within a step is refused', async () => {
    const w = new FlowsHarness(store)
    const nested = workflow('nested', numbered, {
      defaults: { retry: { attempts: 1 } },
      run: (_input, flow) => flow.step('outer', () => flow.step('inner', () => 1)),
    })
    await w.start({ workflows: [nested] })
    const flow = await nested.start({ n: 1 })
    await w.clock.advance('1s')
    await expect(flow.result()).rejects.toMatchObject({ reason: 'step.nested' })
  })

  test.each(['', '~mine', 'a#2', 'x'.repeat(201), '\0', 7])('the name %j is refused', async (name) => {
    const w = new FlowsHarness(store)
    const odd = workflow('odd', numbered, { run: (_input, flow) => flow.step(name as string, () => 1) })
    await w.start({ workflows: [odd] })
    const flow = await odd.start({ n: 1 })
    await w.clock.advance('1s')
    await expect(flow.result()).rejects.toMatchObject({ reason: 'option.invalid' })
  })

  test('what a step returns comes back as JSON makes it, also the first time', async () => {
    const w = new FlowsHarness(store)
    const seen: unknown[] = []
    const values = workflow('values', numbered, {
      defaults: { retry: { attempts: 1 } },
      run: async (_input, flow) => {
        seen.push(await flow.step('date', () => ({ at: new Date(0), left: undefined, list: [undefined, Number.NaN] })))
        seen.push(await flow.step('nothing', () => undefined))
        seen.push(await flow.step('null', () => null))
        await flow.sleep('pause', '1s')
        return flow.step('big', (): unknown => 1n)
      },
    })
    await w.start({ workflows: [values] })
    const flow = await values.start({ n: 1 })
    await w.clock.advance('5s')
    await expect(flow.result()).rejects.toMatchObject({ reason: 'payload.unserialisable' })
    const once = [{ at: '1970-01-01T00:00:00.000Z', list: [null, null] }, undefined, null]
    expect(seen).toEqual([...once, ...once])
  })

  test('a flow whose body changes its mind ends nevertheless, and tells it once', async () => {
    const w = new FlowsHarness(store)
    const slow = limit('slow', { rate: 10, per: '100ms', burst: 10 })
    let coin = 0
    const runs = new Map<string, number>()
    const ran = (id: string, name: string): void => void runs.set(`${id} ${name}`, (runs.get(`${id} ${name}`) ?? 0) + 1)
    const fickle = workflow('fickle', numbered, {
      run: async (_input, flow) => {
        const side = coin++ % 3 === 0 ? 'a' : 'b'
        await flow.step(side, () => ran(flow.id, side))
        await flow.step('c', { limits: [slow] }, () => ran(flow.id, 'c'))
      },
    })
    const engine = await w.start({ workflows: [fickle], ...WIDE })
    const events = record(engine, 'flow.strayed')
    const flows = await fickle.startMany(many(100))
    await w.clock.advance('2s')
    await Promise.all(flows.map((flow) => flow.result()))
    expect([...runs.values()].filter((count) => count > 1)).toEqual([])
    const strayed = flows.filter(({ id }) => runs.has(`${id} a`) && runs.has(`${id} b`))
    expect(strayed.length).toBeGreaterThan(0)
    expect(events.map(({ event }) => event.id).toSorted()).toEqual(strayed.map(({ id }) => id).toSorted())
  })

  test('a strict workflow fails when it strays', async () => {
    const w = new FlowsHarness(store)
    let entries = 0
    const strict = workflow('strict', numbered, {
      strict: true,
      run: async (_input, flow) => {
        await flow.step(`s${entries++}`, () => 1)
        await flow.sleep('pause', '1s')
      },
    })
    await w.start({ workflows: [strict] })
    const flow = await strict.start({ n: 1 })
    await w.clock.advance('5s')
    await expect(flow.result()).rejects.toMatchObject({ reason: 'flow.strayed' })
  })

  test('a body that names its limited step by chance fails, and does not go on for ever', async () => {
    const w = new FlowsHarness(store)
    let names = 0
    const free = limit('free', { rate: 1_000_000, per: '1s' })
    const endless = workflow('endless', numbered, {
      run: async (_input, flow) => flow.step(`s${names++}`, { limits: [free] }, () => 1),
    })
    const engine = await w.start({ workflows: [endless], ...WIDE })
    const events = record(engine, 'flow.strayed')
    const flow = await endless.start({ n: 1 })
    await w.clock.advance('1s')
    await expect(flow.result()).rejects.toMatchObject({ reason: 'flow.strayed' })
    expect(events).toHaveLength(1)
  })

  test('a granted step is on record while its body waits for something of its own', async () => {
    const w = new FlowsHarness(store)
    const free = limit('free', { rate: 1_000_000, per: '1s' })
    let go = (): void => undefined
    const own = new Promise<void>((resolve) => (go = resolve))
    const waits = workflow('waits', numbered, {
      run: async (_input, flow) => {
        await flow.step('paid', { limits: [free] }, () => 1)
        await own
      },
    })
    const engine = await w.start({ workflows: [waits] })
    const flow = await waits.start({ n: 1 })
    await w.clock.advance('1s')
    expect((await engine.flows.inspect(flow.id))?.steps).toMatchObject([{ name: 'paid', state: 'done' }])
    go()
    expect(await flow.result()).toBeUndefined()
  })

  test('a race has the same winner at every entry', async () => {
    const w = new FlowsHarness(store)
    const race = workflow('race', numbered, {
      signals: { go: input<string>() },
      run: async (_input, flow) => {
        const won = await Promise.race([flow.sleep('late', '2s').then(() => 'sleep'), flow.signal('go')])
        await flow.step('won', () => w.note(won))
        await flow.sleep('after', '5s')
        await flow.step('again', () => w.note(won))
        return won
      },
    })
    const engine = await w.start({ workflows: [race] })
    const events = record(engine, 'flow.strayed')
    const flow = await race.start({ n: 1 })
    await w.clock.advance('1s')
    await race.signal(flow.id, 'go', 'signal')
    await w.clock.advance('30s')
    expect(await flow.result()).toBe('signal')
    expect(w.starts).toEqual([
      { step: 'signal', at: 1 },
      { step: 'signal', at: 6 },
    ])
    expect(events).toEqual([])
  })

  test('a body that begins again remembers nothing', async () => {
    const w = new FlowsHarness(store)
    const keys: string[] = []
    const loop = workflow('loop', numbered, {
      key: () => 'one',
      run: async ({ n }, flow) => {
        await flow.step('s', ({ key }) => (w.note(`s${n}`), keys.push(key)))
        await flow.sleep('pause', '10s')
        return n === 3 ? n : again({ n: n + 1 })
      },
    })
    await w.start({ workflows: [loop] })
    const flow = await loop.start({ n: 1 })
    await w.clock.advance('1m')
    expect(w.starts).toEqual([1, 2, 3].map((n) => ({ step: `s${n}`, at: (n - 1) * 10 })))
    expect(await flow.result()).toBe(3)
    expect(new Set(keys).size).toBe(3)
  })
})

describe.each(STORES)('what a workflow waits for on $name', (store) => {
  test('sleeps by the clock of the store, and until an instant of the wall clock', async () => {
    const w = new FlowsHarness(store)
    const until = new Date(w.clock.now() + 30_000)
    const nap = workflow('nap', numbered, {
      run: async (_input, flow) => {
        await flow.sleep('a', '10s')
        w.note('a')
        await flow.sleepUntil('b', until)
        w.note('b')
        await flow.sleep('none', 0)
        await Promise.all([flow.sleep('c', '5s'), flow.sleepUntil('d', new Date(w.clock.now() + 7000))])
        return 'rested'
      },
    })
    await w.start({ workflows: [nap], queues: { default: { concurrency: 1 } } })
    const flow = await nap.start({ n: 1 })
    await w.clock.advance('29s')
    expect(w.of('b')).toEqual([])
    await w.clock.advance('8s')
    expect(w.of('b')[0]).toBe(30)
    expect(await flow.result()).toBe('rested')
  })

  test('a signal is answered in the order sent, also from before it was asked for', async () => {
    const w = new FlowsHarness(store)
    const inbox = workflow('inbox', numbered, {
      key: ({ n }) => `k${n}`,
      signals: { go: input<string>(), at: input<{ by: string }>() },
      run: async (_input, flow) => {
        await flow.sleep('first', '10s')
        const one = await flow.signal('go')
        const two = await flow.signal('go')
        const { by } = await flow.signal('at')
        return [one, two, by]
      },
    })
    await w.start({ workflows: [inbox] })
    const flow = await inbox.start({ n: 1 })
    await w.clock.advance('1s')
    const answers = []
    for (const once of ['e1', 'e1', 'e1', 'e2']) answers.push(await inbox.signal({ key: 'k1' }, 'go', once, { once }))
    expect(answers.map(({ duplicate }) => duplicate)).toEqual([false, true, true, false])
    await w.clock.advance('10s')
    await inbox.signal(flow.id, 'at', { by: 'ann' })
    await w.clock.advance('1s')
    expect(await flow.result()).toEqual(['e1', 'e2', 'ann'])
  })

  test('a wait for a signal ends with its time, and a later one gets what came after', async () => {
    const w = new FlowsHarness(store)
    const late = workflow('late', numbered, {
      signals: { go: input<string | null>() },
      run: async (_input, flow) => {
        const first = await flow.signal('go', { within: '1m' })
        w.note(`first ${String(first)}`)
        const second = await flow.signal('go', { within: '1m' })
        return [first, second]
      },
    })
    await w.start({ workflows: [late] })
    const flow = await late.start({ n: 1 })
    await w.clock.advance('1m')
    expect(w.starts).toEqual([{ step: 'first null', at: 60 }])
    await w.clock.advance(1)
    await late.signal(flow.id, 'go', 'late')
    await w.clock.advance(1)
    expect(await flow.result()).toEqual([null, 'late'])
  })

  test('a task is called under its own limits and retries', async () => {
    const w = new FlowsHarness(store)
    const slow = limit('slow', { rate: 1, per: '2s' })
    let fails = 1
    const ship = task('ship', numbered, {
      limits: [slow],
      retry: FIXED,
      run: ({ n }) => {
        w.note(`ship${n}`)
        if (n === 2 && fails-- > 0) throw new Error('once')
        if (n === 3) throw new NonRetryable('lost')
        return { label: `L${n}` }
      },
    })
    const order = workflow('order', numbered, {
      run: async (_input, flow) => {
        const one = await flow.call('one', ship, { n: 1 })
        const two = await flow.call('two', ship, { n: 2 }, { delay: '5s' })
        const three = await flow.call('three', ship, { n: 3 }).catch((error: unknown) => (error as StepFailed).reason)
        return [one.label, two.label, three]
      },
    })
    await w.start({ workflows: [order], tasks: [ship], queues: { default: { concurrency: 1 } } })
    const flow = await order.start({ n: 1 })
    await w.clock.advance('30s')
    expect(w.starts.map(({ step, at }) => `${step} ${at}`)).toEqual(['ship1 0', 'ship2 5', 'ship2 7', 'ship3 9'])
    expect(await flow.result()).toEqual(['L1', 'L2', 'handler.nonretryable'])
  })

  test('a call has the options of an enqueue, and refuses those that a flow cannot keep', async () => {
    const w = new FlowsHarness(store)
    const work = task('work', numbered, {
      retry: { attempts: 5 },
      run: async ({ n }, { attempt, signal }) => {
        w.note(`work${n}#${attempt}`)
        if (n === 1) throw new Error('always')
        if (n === 2)
          await new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason as Error)))
        return n
      },
    })
    const codeOf = async (call: Promise<unknown>): Promise<string> =>
      call.then(String, (error: unknown) => (error as StepFailed).reason)
    const given: readonly object[] = [
      { unique: 'x' },
      { tx: {} },
      { attempts: 3 },
      { priority: 101 },
      { delay: 'soon' },
    ]
    const refusals: unknown[] = []
    const order = workflow('order', numbered, {
      run: async (_input, flow) => {
        const retried = await codeOf(flow.call('retried', work, { n: 1 }, { retry: { attempts: 2, backoff: 'none' } }))
        const timed = await codeOf(
          flow.call('timed', work, { n: 2 }, { timeout: '2s', retry: { attempts: 1 }, tags: ['a'] }),
        )
        const expiresAt = new Date(w.clock.now() + 1000)
        const late = await codeOf(flow.call('late', work, { n: 3 }, { queue: 'unserved', expiresAt }))
        await Promise.all(
          [-5, 5].map((priority) => flow.call(`p${priority}`, work, { n: priority }, { priority, queue: 'one' })),
        )
        return [retried, timed, late]
      },
    })
    const wrong = workflow('wrong', numbered, {
      run: async ({ n }, flow) => flow.call('wrong', work, { n: 9 }, given[n]),
    })
    const queues = { default: { concurrency: 4 }, one: { concurrency: 1 } }
    const sluice = await w.start({ workflows: [order, wrong], tasks: [work], queues })
    const flow = await order.start({ n: 1 })
    const failing = await wrong.startMany(given.map((_, n) => ({ n })))
    await w.clock.advance('60s')
    expect(await flow.result()).toEqual(['handler.failed', 'job.timeout', 'job.expired'])
    expect(w.starts.map(({ step }) => step)).toEqual(['work1#1', 'work1#2', 'work2#1', 'work5#1', 'work-5#1'])
    for (const { id } of failing) refusals.push((await sluice.flows.inspect(id))?.error?.code)
    expect(refusals).toEqual([...Array<string>(3).fill('option.invalid'), 'priority.invalid', 'duration.invalid'])
  })

  test('a map runs a task for each item, in order, at most so many at once', async () => {
    const w = new FlowsHarness(store)
    let running = 0
    let most = 0
    const work = task('work', numbered, {
      retry: { attempts: 1 },
      run: async ({ n }) => {
        most = Math.max(most, ++running)
        await w.clock.sleep('1s')
        running--
        if (n === 3) throw new Error('three')
        return n * n
      },
    })
    const mapped = workflow('mapped', numbered, {
      run: async (_input, flow) => {
        const none = await flow.map('none', work, [])
        const some = await flow.map('some', work, [{ n: 1 }, { n: 2 }])
        const all = await flow.map('all', work, many(5), { atOnce: 2, onFailure: 'collect' })
        const failed = await flow.map('fails', work, [{ n: 3 }]).catch((error: unknown) => (error as StepFailed).reason)
        return { none, some, all, failed }
      },
    })
    await w.start({ workflows: [mapped], tasks: [work] })
    const flow = await mapped.start({ n: 1 })
    await w.clock.advance('20s')
    const of = (value: number): object => ({ ok: true, value })
    expect(await flow.result()).toEqual({
      none: [],
      some: [1, 4],
      all: [of(0), of(1), of(4), { ok: false, error: { code: 'handler.failed', message: 'Error: three' } }, of(16)],
      failed: 'handler.failed',
    })
    expect(most).toBe(2)
  })

  test('a map tells each of many failures', async () => {
    const w = new FlowsHarness(store)
    const fails = task('fails', numbered, {
      retry: { attempts: 1 },
      run: ({ n }) => {
        if (n > 0) throw new Error(`no ${n}`)
      },
    })
    const mapped = workflow('mapped', numbered, {
      run: async (_input, flow) => {
        const ends = await flow.map('all', fails, many(1200), { onFailure: 'collect' })
        return ends.filter(({ ok }) => !ok).length
      },
    })
    await w.start({ workflows: [mapped], tasks: [fails], ...WIDE })
    const flow = await mapped.start({ n: 1 })
    await w.clock.advance('5s')
    expect(await flow.result()).toBe(1199)
  })

  test('a map of 10,000 items wakes its flow once', async () => {
    const w = new FlowsHarness(store)
    const wide = limit('wide', { rate: 10_000, per: '1s', burst: 10_000 })
    const attempts: number[] = []
    const work = task('work', numbered, {
      limits: [wide],
      retry: { attempts: 3, backoff: 'none' },
      run: ({ n }, { attempt }) => {
        if (n === 17) attempts.push(attempt)
        if (n === 17 && attempt < 3) throw new Error('not yet')
        return n
      },
    })
    let entries = 0
    const mapped = workflow('mapped', numbered, {
      run: async (_input, flow) => {
        entries++
        const all = await flow.map('all', work, many(10_000))
        return all.every((n, i) => n === i)
      },
    })
    await w.start({ workflows: [mapped], tasks: [work], ...WIDE })
    const flow = await mapped.start({ n: 1 })
    await w.clock.advance('5s')
    expect(await flow.result()).toBe(true)
    expect(attempts).toEqual([1, 2, 3])
    expect(entries).toBe(2)
  })

  test('a child is a flow of its own; its failure can be caught; a detached one lives on', async () => {
    const w = new FlowsHarness(store)
    const inner = workflow('inner', numbered, {
      run: async ({ n }, flow) => {
        await flow.sleep('pause', '5s')
        if (n === 2) throw new Error('inner')
        w.note(`inner${n}`)
        return n * 10
      },
    })
    const outer = workflow('outer', numbered, {
      run: async (_input, flow) => {
        const { id } = await flow.detach('later', inner, { n: 3 })
        const [one, two] = await Promise.all([
          flow.child('one', inner, { n: 1 }),
          flow.child('two', inner, { n: 2 }).catch((error: unknown) => (error as StepFailed).reason),
        ])
        return { id, one, two }
      },
    })
    const engine = await w.start({ workflows: [inner, outer] })
    const flow = await outer.start({ n: 1 })
    await w.clock.advance('10s')
    const { id, one, two } = await flow.result()
    expect([one, two]).toEqual([10, 'handler.failed'])
    expect(w.of('inner3')).toEqual([5])
    expect(await engine.flows.get(id)).toMatchObject({ state: 'completed' })
  })

  test('permits that a flow holds are its own until it ends', async () => {
    const w = new FlowsHarness(store)
    const one = limit('one', { concurrency: 1 })
    const held = workflow('held', numbered, {
      hold: [one.by(({ n }) => `c${n % 2}`)],
      run: async ({ n }, flow) => {
        await flow.step('a', () => w.note(`a${n}`))
        await flow.sleep('pause', '10s')
        await flow.step('b', () => w.note(`b${n}`))
      },
    })
    await w.start({ workflows: [held] })
    await held.startMany([{ n: 0 }, { n: 2 }, { n: 4 }])
    await w.clock.advance('1m')
    expect(w.starts.map(({ step, at }) => `${step} ${at}`)).toEqual([
      'a0 0',
      'b0 10',
      'a2 10',
      'b2 20',
      'a4 20',
      'b4 30',
    ])
  })

  test('a flow fails when its time is over, and the error names the budget it waits for', async () => {
    const w = new FlowsHarness(store)
    const never = limit('never', { rate: 1, per: '365d' })
    const timed = workflow('timed', numbered, {
      timeout: '30s',
      run: (_input, flow) => flow.step('s', { limits: [never.key('acme')] }, () => 1),
    })
    await w.start({ workflows: [timed] })
    const [first, second] = await timed.startMany(many(2))
    await w.clock.advance('1m')
    expect(await first?.result()).toBe(1)
    const error: unknown = await second?.result().catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'flow.failed', reason: 'flow.timeout' })
    expect(String(error)).toContain('never for acme')
  })

  test('a step has its own timeout, and the signal of a cancelled one aborts', async () => {
    const w = new FlowsHarness(store)
    const aborted: string[] = []
    const slow = workflow('slow', numbered, {
      run: async ({ n }, flow) => {
        const wait = async (signal: AbortSignal): Promise<void> => {
          signal.addEventListener('abort', () => void aborted.push(`${n}`))
          await w.clock.sleep('1h')
        }
        await flow.step('wait', { timeout: n === 1 ? '5s' : '1h', retry: { attempts: 1 } }, ({ signal }) =>
          wait(signal),
        )
      },
    })
    const engine = await w.start({ workflows: [slow] })
    const [one, two] = await slow.startMany([{ n: 1 }, { n: 2 }])
    await w.clock.advance('10s')
    await expect(one?.result()).rejects.toMatchObject({ reason: 'step.timeout' })
    expect(await engine.flows.cancel(two?.id ?? '')).toBe(true)
    await w.clock.advance('1s')
    await expect(two?.result()).rejects.toMatchObject({ code: 'flow.cancelled' })
    expect(aborted).toEqual(['1', '2'])
  })
})

describe.each(STORES)('a workflow that is entered again at every step on $name', (store) => {
  test('suspends at every step, and ends as it would otherwise', async () => {
    const w = new FlowsHarness(store, { enterAlways: true })
    let entries = 0
    const three = workflow('three', numbered, {
      run: async ({ n }, flow) => {
        entries++
        const a = await flow.step('a', () => (w.note('a'), n + 1))
        const [b, c] = await Promise.all([flow.step('b', () => (w.note('b'), a + 1)), flow.step('c', () => a + 2)])
        return flow.step('d', () => b + c)
      },
    })
    await w.start({ workflows: [three] })
    const flow = await three.start({ n: 1 })
    await w.clock.advance(0)
    expect(await flow.result()).toBe(7)
    expect(entries).toBe(4)
    expect(w.starts.map(({ step }) => step)).toEqual(['a', 'b'])
  })
})

describe.each(STORES)('new code on $name', (store) => {
  test('steps that are added, removed, renamed or moved change no flow that sleeps', async () => {
    const w = new FlowsHarness(store)
    const note = (name: string) => (): string => (w.note(name), name)
    const old = workflow('deploy', numbered, {
      run: async (_input, flow) => {
        await flow.step('a', note('a'))
        await flow.step('gone', note('gone'))
        await flow.step('moved', note('moved'))
        await flow.step('old', note('old'))
        await flow.sleep('pause', '10s')
      },
    })
    const now = workflow('deploy', numbered, {
      run: async (_input, flow) => {
        await flow.step('moved', note('moved'))
        await flow.step('added', note('added'))
        await flow.step('a', note('a'))
        await flow.step('new', note('new'))
        await flow.sleep('pause', '10s')
        return 'ended'
      },
    })
    const engine = await w.start({ workflows: [old] })
    const flows = await old.startMany(many(20))
    await w.clock.advance('5s')
    await w.stop(engine)
    w.starts.length = 0
    const next = await w.start({ workflows: [now] })
    await w.clock.advance('30s')
    for (const { id } of flows) expect(await next.flows.get(id)).toMatchObject({ state: 'completed' })
    expect(new Set(w.starts.map(({ step }) => step))).toEqual(new Set(['added', 'new']))
  })

  test('a change is true for flows that come there first, and false for those that were past it', async () => {
    const w = new FlowsHarness(store)
    const answers: [number, boolean][] = []
    const body = (isNew: boolean) =>
      workflow('taxed', numbered, {
        run: async ({ n }, flow) => {
          await flow.step('price', () => 1)
          if (isNew) answers.push([n, await flow.changed('tax')])
          await flow.sleep('one', '20s')
          await flow.sleep('two', '20s')
        },
      })
    const engine = await w.start({ workflows: [body(false)] })
    await engine.stop({ within: 0 }).catch(() => undefined)
    const [before, after] = [body(false), body(true)]
    const first = await w.start({ workflows: [before] })
    await before.start({ n: 1 })
    await w.clock.advance('5s')
    await w.stop(first)
    await w.start({ workflows: [after] })
    await after.start({ n: 2 })
    await w.clock.advance('2m')
    expect(new Set(answers.filter(([n]) => n === 1).map(([, is]) => is))).toEqual(new Set([false]))
    expect(answers.filter(([n]) => n === 2).map(([, is]) => is)).toEqual([true, true, true])
  })
})
