// Graphs as their users write them, on every store: order, skipping, failing, undoing, signals, children.
import { describe, expect, it } from 'vitest'
import { input, limit, NonRetryable, type Sluice, type SluiceOptions, task } from '../../src/exports/index.ts'
import { internalsOf } from '../../src/engine/internals.ts'
import { graphFromJson } from '../../src/flows/graph/from-json.ts'
import { graph } from '../../src/flows/graph/graph.ts'
import { createEngineHarness, type EngineHarness } from '../engine/engine-harness.ts'
import { everyStore, type StoreKind } from '../stores.ts'

const stores = await everyStore('graphs')

/** An engine at work, and when each step began, in seconds. */
interface Running extends EngineHarness {
  readonly engine: Sluice
  readonly starts: { readonly step: string; readonly at: number }[]
  /** Notes that a step began. */
  readonly began: (step: string) => void
  readonly of: (step: string) => number[]
}

async function run(kind: StoreKind, given: (running: Running) => Partial<SluiceOptions>): Promise<Running> {
  const harness = createEngineHarness()
  const starts: { step: string; at: number }[] = []
  const running = {
    ...harness,
    starts,
    began: (step: string): void => void starts.push({ step, at: harness.at() }),
    of: (step: string) => starts.filter((each) => each.step === step).map(({ at }) => at),
    engine: undefined as unknown as Sluice,
  }
  running.engine = await harness.start({ store: kind.create(), tasks: [], ...given(running) })
  return running
}

/** The code of the error that a flow ends by, and the step of it. */
async function failureOf(flow: { result(): Promise<unknown> }): Promise<unknown> {
  return flow.result().then(
    () => 'completed',
    (error: unknown) => error,
  )
}

describe.each(stores)('a graph on $name', (kind) => {
  it('runs each step when those before it have ended, with what they came to', async () => {
    let began = (_: string): void => undefined
    const g = graph('review', input<{ pr: number }>())
      .step('diff', ({ input: { pr } }, step) => {
        began('diff')
        return { files: [`${pr}.ts`], at: new Date(0), key: step.key, flow: step.flow }
      })
      .after('diff')
      .step('lint', ({ diff }) => (began('lint'), diff.files.length))
      .after('diff')
      .step('size', ({ diff }) => (began('size'), diff.at))
      .after('lint', 'size')
      .step('post', ({ lint, size, input: { pr } }) => (began('post'), `${lint} ${size} ${pr}`))
      .output((seen) => seen)
    const running = await run(kind, () => ({ workflows: [g] }))
    began = running.began
    const flow = await g.start({ pr: 7 })
    await running.clock.advance('1s')
    const key = `${flow.id}/diff`
    expect(await flow.result()).toEqual({
      input: { pr: 7 },
      diff: { files: ['7.ts'], at: '1970-01-01T00:00:00.000Z', key, flow: { id: flow.id, key: null } },
      lint: 1,
      size: '1970-01-01T00:00:00.000Z',
      post: '1 1970-01-01T00:00:00.000Z 7',
    })
    expect(running.starts.map(({ step }) => step)).toEqual(['diff', 'lint', 'size', 'post'])
  })

  it('skips a step whose condition does not hold, and goes on behind it', async () => {
    const g = graph('maybe', input<{ n: number }>())
      .step('big', { when: ({ input: { n } }) => n > 10 }, () => 'big')
      .step('small', { when: { path: 'input.n', op: 'lte', value: 10 } }, () => 'small')
      .after('big', 'small')
      .step('both', ({ big, small }) => [big ?? null, small ?? null])
      .output(({ both }) => both)
    const { clock } = await run(kind, () => ({ workflows: [g] }))
    const flows = await g.startMany([{ n: 1 }, { n: 11 }])
    await clock.advance('1s')
    expect(await Promise.all(flows.map((flow) => flow.result()))).toEqual([
      [null, 'small'],
      ['big', null],
    ])
  })

  it.each(['stop', 'continue', 'fast'] as const)('with a step that fails and %s', async (how) => {
    let running = null as Running | null
    const g = graph('failing', input<void>(), { onFailure: how === 'fast' ? 'fast' : 'finish' })
      .step('a', () => running?.began('a'))
      .after('a')
      .step(
        'b',
        { onFailure: how === 'continue' ? 'continue' : 'stop', retry: { attempts: 2, initial: '1s', jitter: false } },
        () => {
          running?.began('b')
          throw new Error('broken')
        },
      )
      .after('a')
      .sleep('nap', '5s')
      .after('nap')
      .step('c', () => running?.began('c'))
      .after('b', 'c')
      .step('d', ({ b }) => (running?.began('d'), b))
      .output(({ d }) => d)
    running = await run(kind, () => ({ workflows: [g] }))
    const flow = await g.start()
    const failed = failureOf(flow)
    await running.clock.advance('10s')
    const { of } = running
    expect(of('b')).toEqual([0, 1])
    expect(of('c')).toEqual(how === 'fast' ? [] : [5])
    expect(of('d')).toEqual(how === 'continue' ? [5] : [])
    if (how === 'continue') {
      expect(await flow.result()).toEqual({ failed: { code: 'handler.failed', message: 'Error: broken' } })
      return
    }
    expect(await failed).toMatchObject({ code: 'flow.failed' })
    expect(String(await failed)).toMatch(/step "b" failed in attempt 2: .*broken/)
    const record = await running.engine.flows.get(flow.id)
    expect(record).toMatchObject({ state: 'failed' })
    expect(Number(record?.finishedAt)).toBe(Number(record?.createdAt) + (how === 'fast' ? 1000 : 5000))
  })

  it('runs a step for each item, in order, within its limit, and at once for none', async () => {
    let running = null as Running | null
    const llm = limit('llm', { rate: 50, per: '1s' })
    const g = graph('each', input<{ count: number }>())
      .step('list', ({ input: { count } }) => Array.from({ length: count }, (_, i) => i))
      .after('list')
      .each(({ list }) => list)
      .step('ask', { limits: [llm] }, ({ item, index }) => {
        running?.began('ask')
        return item * 2 + index
      })
      .output(({ ask }) => ask)
    running = await run(kind, () => ({ workflows: [g] }))
    const none = await g.start({ count: 0 })
    await running.clock.advance(0)
    expect(await none.result()).toEqual([])
    // Each instant of the manual clock costs round trips.
    const count = kind.name === 'postgres' ? 100 : 500
    const flow = await g.start({ count })
    await running.clock.advance('10s')
    expect(await flow.result()).toEqual(Array.from({ length: count }, (_, i) => 3 * i))
    expect(running.of('ask')).toHaveLength(count)
    expect(running.of('ask').filter((at) => at === 0)).toHaveLength(50)
    expect(Math.max(...running.of('ask'))).toBeCloseTo((count - 50) / 50, 3)
  })

  it('runs no more items at once than it says', async () => {
    let atOnce = 0
    let most = 0
    const harness = createEngineHarness()
    const g = graph('few', input<void>())
      .each(() => [1, 2, 3, 4, 5, 6, 7], { atOnce: 3 })
      .step('one', async ({ item }) => {
        most = Math.max(most, ++atOnce)
        await harness.clock.sleep('1s')
        atOnce--
        return item
      })
      .output(({ one }) => one)
    await harness.start({ store: kind.create(), tasks: [], workflows: [g] })
    const flow = await g.start()
    await harness.clock.advance('2500ms')
    expect(most).toBe(3)
    await harness.clock.advance('1s')
    expect(await flow.result()).toEqual([1, 2, 3, 4, 5, 6, 7])
  })

  it('fails a step whose item fails for good, after its retries', async () => {
    const tries = new Map<number, number>()
    const g = graph('items', input<{ times: number }>())
      .each(() => [0, 1, 2])
      .step('one', { retry: { attempts: 3, initial: '1s', jitter: false } }, ({ item, input: { times } }) => {
        const tried = (tries.get(item) ?? 0) + 1
        tries.set(item, tried)
        if (item === 1 && tried <= times) throw new Error('not yet')
        return tried
      })
      .output(({ one }) => one)
    const { clock } = await run(kind, () => ({ workflows: [g] }))
    const flow = await g.start({ times: 2 })
    await clock.advance('10s')
    expect(await flow.result()).toEqual([1, 3, 1])
    tries.clear()
    const other = await g.start({ times: 3 })
    const failed = failureOf(other)
    await clock.advance('10s')
    expect(String(await failed)).toMatch(/1 of 3 items failed; the first is item 1: .*not yet/)
  })

  it('undoes what was done once it has failed, the last first, one at a time', async () => {
    let running = null as Running | null
    const slow = limit('slow', { every: '1s' })
    const built = (undoFails: boolean) =>
      graph(undoFails ? 'saga.broken' : 'saga', input<void>())
        .step('hotel', () => 'h')
        .undo('hotel', {}, ({ hotel }) => running?.began(`undo ${hotel}`))
        .after('hotel')
        .step('flight', () => 'f')
        .undo('flight', { limits: [slow], retry: { attempts: 1 } }, ({ flight }) => {
          running?.began(`undo ${flight}`)
          if (undoFails) throw new Error('no refund')
        })
        .after('flight')
        .step('mail', () => 'm')
        .after('mail')
        .step('pay', { retry: { attempts: 1 } }, () => {
          throw new NonRetryable('card')
        })
        .undo('pay', {}, () => running?.began('undo pay'))
        .output(() => 1)
    const [good, bad] = [built(false), built(true)]
    running = await run(kind, () => ({ workflows: [good, bad] }))
    const failed = failureOf(await good.start())
    await running.clock.advance('3s')
    expect(running.starts.map(({ step }) => step)).toEqual(['undo f', 'undo h'])
    expect(String(await failed)).toMatch(/step "pay" failed in attempt 1: .*card/)
    running.starts.splice(0)
    const flow = await bad.start()
    const broken = failureOf(flow)
    await running.clock.advance('3s')
    expect(running.starts.map(({ step }) => step)).toEqual(['undo f'])
    expect(String(await broken)).toMatch(/card/)
    const [main] = await running.engine.flows.jobs(flow.id)
    expect(main?.error).toMatchObject({ details: { step: 'pay', undone: false, undo_failed: 'flight' } })
  })

  it('calls tasks with their own limits and retries, starts children, and sleeps', async () => {
    let running = null as Running | null
    const slow = limit('slow', { every: '2s' })
    let tries = 0
    const ship = task('ship', input<{ sku: string }>(), {
      limits: [slow],
      retry: { initial: '1s', jitter: false },
      run: ({ sku }) => {
        running?.began('ship')
        if (++tries === 1) throw new Error('later')
        return `L-${sku}`
      },
    })
    const inner = graph('inner', input<{ n: number }>())
      .sleep('nap', '3s')
      .after('nap')
      .step('twice', ({ input: { n } }) => n * 2)
      .output(({ twice }) => ({ twice }))
    const outer = graph('outer', input<{ sku: string }>())
      .call('ship', ship, ({ input: { sku } }) => ({ sku }))
      .child('one', inner, () => ({ n: 21 }))
      .each(() => [1, 2])
      .child('two', inner, ({ item }) => ({ n: item }))
      .sleep('until', () => new Date((running?.clock.now() ?? 0) + 4000))
      .output(({ ship: label, one, two, until }) => ({ label, one, two, until }))
    running = await run(kind, () => ({ tasks: [ship], workflows: [outer, inner] }))
    const flow = await outer.start({ sku: 'x' })
    await running.clock.advance('10s')
    expect(await flow.result()).toEqual({
      label: 'L-x',
      one: { twice: 42 },
      two: [{ twice: 2 }, { twice: 4 }],
      until: null,
    })
    expect(running.of('ship')).toEqual([0, 2])
    const record = await running.engine.flows.get(flow.id)
    expect(Number(record?.finishedAt) - Number(record?.createdAt)).toBe(4000)
  })

  it('takes each signal once, in order, also from before it is asked for, and gives up in time', async () => {
    const g = graph('approval', input<void>(), { key: () => 'k1' })
      .sleep('first', '1s')
      .after('first')
      .signal('approve', input<{ by: string }>())
      .after('approve')
      .signal('again', input<{ by: string }>(), { within: '10m' })
      .output(({ approve, again }) => [approve.by, again?.by ?? null])
    const { clock } = await run(kind, () => ({ workflows: [g] }))
    const flow = await g.start()
    expect(await g.signal(flow.id, 'approve', { by: 'ann' }, { once: 'e1' })).toEqual({ duplicate: false })
    expect(await g.signal({ key: 'k1' }, 'approve', { by: 'ann' }, { once: 'e1' })).toEqual({ duplicate: true })
    await clock.advance('2s')
    await clock.advance('10m')
    expect(await flow.result()).toEqual(['ann', null])
    await expect(g.signal(flow.id, 'approve', { by: 'ann' })).rejects.toMatchObject({ code: 'flow.ended' })
    await expect(g.signal('00000000-0000-7000-8000-000000000000', 'approve', { by: 'ann' })).rejects.toMatchObject({
      code: 'flow.not_found',
    })
    const other = await g.start()
    await clock.advance('2s')
    await g.signal({ key: 'k1' }, 'approve', { by: 'bob' })
    await clock.advance('1s')
    await g.signal({ key: 'k1' }, 'again', { by: 'eve' })
    await clock.advance('1s')
    expect(await other.result()).toEqual(['bob', 'eve'])
  })

  it('retries a flow from where it failed, or from a step', async () => {
    let running = null as Running | null
    let broken = true
    interface Chain {
      after(step: string): Chain
      step(name: string, options: object, run: () => void): Chain
      output(of: () => string): ReturnType<typeof chain.output<string>>
    }
    const chain = graph('ten', input<void>()).step('s1', () => running?.began('s1'))
    let g = chain as unknown as Chain
    for (let i = 2; i <= 10; i++)
      g = g.after(`s${i - 1}`).step(`s${i}`, { retry: { attempts: 1 } }, () => {
        running?.began(`s${i}`)
        if (i === 7 && broken) throw new Error('no')
      })
    const ten = g.output(() => 'done')
    running = await run(kind, () => ({ workflows: [ten] }))
    const [flow, other] = await ten.startMany([undefined, undefined])
    await running.clock.advance('1s')
    expect(new Set(running.starts.map(({ step }) => step))).toEqual(new Set(['s1', 's2', 's3', 's4', 's5', 's6', 's7']))
    broken = false
    running.starts.splice(0)
    expect(await running.engine.jobs.retry(flow?.id ?? '')).toBe(true)
    await running.clock.advance('2s')
    expect(running.starts.map(({ step }) => step)).toEqual(['s7', 's8', 's9', 's10'])
    running.starts.splice(0)
    expect(await retry(running.engine, other?.id ?? '', 's4')).toBe('retried')
    await running.clock.advance('2s')
    expect(running.starts.map(({ step }) => step)).toEqual(['s4', 's5', 's6', 's7', 's8', 's9', 's10'])
    expect(await running.engine.flows.get(flow?.id ?? '')).toMatchObject({ state: 'completed' })
    expect(await running.engine.flows.get(other?.id ?? '')).toMatchObject({ state: 'completed' })
  })

  it('is cancelled with its waiting steps and children, and charges nothing for them', async () => {
    const slow = limit('slow', { rate: 1, per: '1h' })
    const inner = graph('waits', input<void>())
      .signal('never', input<void>())
      .output(() => 1)
    const g = graph('wide', input<void>())
      .each(() => Array.from({ length: 30 }, (_, i) => i))
      .step('ask', { limits: [slow] }, () => 1)
      .each(() => [1, 2, 3])
      .child('inner', inner, () => undefined)
      .output(() => 1)
    const { clock, engine } = await run(kind, () => ({ workflows: [g, inner] }))
    const flow = await g.start()
    const failed = failureOf(flow)
    await clock.advance('1s')
    const children = (await engine.flows.list({ name: 'waits' })).map(({ id }) => id)
    expect(children).toHaveLength(3)
    expect(await engine.flows.cancel(flow.id)).toBe(true)
    for (const id of children) expect(await engine.flows.get(id)).toMatchObject({ state: 'cancelled' })
    expect(await failed).toMatchObject({ code: 'flow.cancelled' })
    await clock.advance('1s')
    expect((await engine.limits.inspect('slow'))[0]).toMatchObject({ waiting: 0 })
    expect(await engine.jobs.list({ states: ['available', 'pending', 'active'] })).toEqual([])
  })

  it('runs a step that is alone at once, and what follows begins when it has ended', async () => {
    const harness = createEngineHarness()
    const starts: [string, number, number][] = []
    const note = (step: string, attempt: number): void => void starts.push([step, harness.at(), attempt])
    const g = graph('alone', input<void>())
      .step('long', async (_, { attempt }) => {
        note('long', attempt)
        await harness.clock.sleep('3s')
      })
      .after('long')
      .sleep('nap', '2s')
      .after('nap')
      .step('flaky', { retry: { attempts: 3, backoff: 'fixed', initial: '1s', jitter: false } }, (_, { attempt }) => {
        note('flaky', attempt)
        if (attempt < 3) throw new Error('again')
        return attempt
      })
      .output(({ flaky }) => flaky)
    await harness.start({ store: kind.create(), tasks: [], workflows: [g] })
    const flow = await g.start()
    await harness.clock.advance('8s')
    expect(await flow.result()).toBe(3)
    expect(starts).toEqual([
      ['long', 0, 1],
      ['flaky', 5, 1],
      ['flaky', 6, 2],
      ['flaky', 7, 3],
    ])
  })

  it('goes through 100 steps that each come after two others', async () => {
    const harness = createEngineHarness()
    const steps = Object.fromEntries(
      Array.from({ length: 100 }, (_, i) => [
        `s${i}`,
        { task: 'next', after: [1, 2].flatMap((back) => (i >= back ? [`s${i - back}`] : [])), input: i },
      ]),
    )
    const next = task('next', input<number>(), { run: (n) => n + 1 })
    const g = graphFromJson({ name: 'wide', steps })
    await harness.start({ store: kind.create(), tasks: [next], workflows: [g] })
    const flow = await g.start(null)
    await harness.clock.advance('1s')
    expect(await flow.result()).toEqual({ s99: 100 })
  })

  it('holds permits from its first step to its end, and fails when its time is over', async () => {
    let running = null as Running | null
    const customer = limit('customer', { concurrency: 1 })
    const g = graph('held', input<{ who: string; wait: number }>(), {
      hold: [customer.by(({ who }) => who)],
      timeout: '1h',
    })
      .step('a', () => running?.began('a'))
      .after('a')
      .sleep('nap', '10s')
      .after('nap')
      .step('b', () => running?.began('b'))
      .output(() => 1)
    running = await run(kind, () => ({ workflows: [g] }))
    await g.startMany([1, 2, 3].map((wait) => ({ who: 'x', wait })))
    const other = await g.start({ who: 'y', wait: 0 })
    await running.clock.advance('31s')
    expect(running.of('a')).toEqual([0, 0, 10, 20])
    expect(await other.result()).toBe(1)
    const late = graph('late', input<void>(), { timeout: '5s' })
      .signal('never', input<void>())
      .output(() => 1)
    const second = await run(kind, () => ({ workflows: [late] }))
    const failed = failureOf(await late.start())
    await second.clock.advance('6s')
    expect(String(await failed)).toMatch(/timeout/)
  })
})

/** Retries a flow, from a step, as an operator does. */
async function retry(engine: Sluice, id: string, from: string): Promise<string> {
  const { open, wakeup } = internalsOf(engine)
  const answer = await (await open()).store.retryFlow(id, from)
  wakeup.notify('work')
  return answer
}
