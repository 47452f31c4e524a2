// Limits on the steps of graphs, on every store: rates, keys from inputs and results, attempts, push-backs.
import { describe, expect, it } from 'vitest'
import { input, limit, RateLimited, task } from '../../src/exports/index.ts'
import { graph } from '../../src/exports/flows.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness } from '../engine/engine-harness.ts'

const stores = await everyStore('limits of graphs')

/** The starts never exceed the burst and what has flowed in since. */
function expectWithin(starts: readonly number[], rate: number, burst: number): void {
  for (const [i, from] of starts.entries())
    for (let j = i; j < starts.length; j++)
      expect(j - i + 1).toBeLessThanOrEqual(burst + rate * ((starts[j] ?? 0) - from) + 1e-6)
}

describe.each(stores)('a limit on a step of a graph on $name', (kind) => {
  /** Each instant of the manual clock costs round trips. */
  const many = kind.name === 'postgres' ? 25 : 100

  it('holds over all flows: the burst at once, then one by one', async () => {
    const harness = createEngineHarness()
    const starts: { n: number; at: number }[] = []
    const tenIn6s = limit('ten', { rate: 10, per: '6s' })
    const g = graph('one.step', input<{ n: number }>())
      .step('s', { limits: [tenIn6s] }, ({ input: { n } }) => void starts.push({ n, at: harness.at() }))
      .output(() => null)
    await harness.start({ store: kind.create(), tasks: [], workflows: [g] })
    await g.startMany(Array.from({ length: 40 }, (_, n) => ({ n })))
    await harness.clock.advance('20s')
    const inOrder = Array.from({ length: 40 }, (_, n) => n)
    // On PostgreSQL two batches of moves may be in flight, and the later one may arrive first.
    if (kind.name === 'sqlite') expect(starts.map(({ n }) => n)).toEqual(inOrder)
    expect(starts.map(({ n }) => n).toSorted((a, b) => a - b)).toEqual(inOrder)
    expect(starts.slice(0, 10).every(({ at }) => at === 0)).toBe(true)
    for (const [i, { at }] of starts.slice(10).entries()) expect(at).toBeCloseTo(0.6 * (i + 1), 3)
  })

  it('holds each key to its own budget', async () => {
    const harness = createEngineHarness()
    const starts: { tenant: string; at: number }[] = []
    const perTenant = limit('tenant', { rate: 5, per: '1s' })
    const g = graph('keyed', input<{ tenant: string }>())
      .step(
        's',
        { limits: [{ limit: perTenant, by: 'input.tenant' }] },
        ({ input: { tenant } }) => void starts.push({ tenant, at: harness.at() }),
      )
      .output(() => null)
    await harness.start({ store: kind.create(), tasks: [], workflows: [g] })
    await g.startMany(Array.from({ length: many }, () => ({ tenant: 'noisy' })))
    await g.startMany(Array.from({ length: 50 }, (_, i) => ({ tenant: `quiet ${i}` })))
    await harness.clock.advance('20s')
    expect(starts.filter(({ tenant }) => tenant !== 'noisy').every(({ at }) => at === 0)).toBe(true)
    const noisy = starts.filter(({ tenant }) => tenant === 'noisy').map(({ at }) => at)
    expect(noisy).toHaveLength(many)
    expectWithin(noisy, 5, 5)
    expect(noisy.at(-1)).toBeCloseTo((many - 5) / 5, 3)
  })

  it('is one budget for two graphs and a task that name it', async () => {
    const harness = createEngineHarness()
    const starts: number[] = []
    const openai = limit('openai', { rate: 20, per: '1s' })
    const run = (): void => void starts.push(harness.at())
    const one = graph('one', input<void>())
      .step('s', { limits: [openai] }, run)
      .output(() => 1)
    const two = graph('two', input<void>())
      .step('s', { limits: [openai] }, run)
      .output(() => 1)
    const three = task('three', { limits: [openai], run })
    await harness.start({ store: kind.create(), tasks: [three], workflows: [one, two] })
    await one.startMany(Array.from({ length: 10 }, () => undefined))
    await two.startMany(Array.from({ length: 10 }, () => undefined))
    await three.enqueueMany(Array.from({ length: 10 }, () => undefined))
    await harness.clock.advance('3s')
    expect(starts).toHaveLength(30)
    expectWithin(starts, 20, 20)
    expect(starts.at(-1)).toBeCloseTo(0.5, 3)
  })

  const hostile = [
    'a@b.com',
    't:42',
    'acme corp',
    'ünï',
    'a.b',
    'x.',
    '_global',
    'k'.repeat(4096),
    '1000000',
    '9007199254740993',
    'true',
  ]
  it('has a bucket for each value of a key, from the input, a result, an item or a function', async () => {
    const harness = createEngineHarness()
    const starts: { step: string; key: string; at: number }[] = []
    const began = (step: string, key: string): void => void starts.push({ step, key, at: harness.at() })
    const limits = ['input', 'result', 'item', 'code'].map((name) => limit(`by ${name}`, { rate: 1, per: '1s' }))
    const [byInput, byResult, byItem, byCode] = limits as [
      ReturnType<typeof limit>,
      ReturnType<typeof limit>,
      ReturnType<typeof limit>,
      ReturnType<typeof limit>,
    ]
    const g = graph('keys', input<{ t: string }>())
      .step('input1', { limits: [{ limit: byInput, by: 'input.t' }] }, ({ input: { t } }) => began('input', t))
      .step('up', ({ input: { t } }) => ({ id: t, list: [{ x: t }] }))
      .after('up')
      .step('result1', { limits: [{ limit: byResult, by: 'up.id' }] }, ({ up }) => began('result', up.id))
      .after('up')
      .each(({ up }) => up.list)
      .step('item1', { limits: [{ limit: byItem, by: 'item.x' }] }, ({ item }) => began('item', item.x))
      .after('up')
      .step('code1', { limits: [byCode.by(({ up }) => up.id)] }, ({ up }) => began('code', up.id))
      .output(() => 1)
    await harness.start({ store: kind.create(), tasks: [], workflows: [g] })
    await g.startMany([...hostile, ...hostile].map((t) => ({ t })))
    await harness.clock.advance('3s')
    for (const step of ['input', 'result', 'item', 'code'])
      for (const key of hostile)
        expect(starts.filter((each) => each.step === step && each.key === key).map(({ at }) => at)).toEqual([0, 1])
  })

  it('fails the step, and only it, where its key is missing', async () => {
    const harness = createEngineHarness()
    const strict = limit('strict', { rate: 1, per: '1s', onMissingKey: 'fail' })
    const shared = limit('shared', { rate: 1, per: '1s', onMissingKey: 'shared' })
    const ran: { step: string; at: number }[] = []
    const g = graph('missing', input<{ t?: string | null }>())
      .step('bad', { limits: [{ limit: strict, by: 'input.t' }], onFailure: 'continue' }, () => 1)
      .after('bad')
      .step('then', ({ bad }) => bad)
      .step(
        'together',
        { limits: [{ limit: shared, by: 'input.t' }] },
        () => void ran.push({ step: 'together', at: harness.at() }),
      )
      .step('weight', { limits: [strict.by(() => 'k', { weight: () => 5 })], onFailure: 'continue' }, () => 1)
      .after('weight')
      .step('heavy', ({ weight }) => weight)
      .output(({ then, heavy }) => [then, heavy])
    await harness.start({ store: kind.create(), tasks: [], workflows: [g] })
    const flows = await g.startMany([{}, { t: null }, { t: '' }])
    await harness.clock.advance('4s')
    for (const flow of flows)
      expect(await flow.result()).toMatchObject([
        { failed: { code: 'limit.key.missing' } },
        { failed: { code: 'limit.weight.above_burst' } },
      ])
    expect(ran.map(({ at }) => at)).toEqual([0, 1, 2])
  })

  it('is paid by every attempt', async () => {
    const harness = createEngineHarness()
    const starts: number[] = []
    const five = limit('five', { rate: 5, per: '1s' })
    const g = graph('attempts', input<{ n: number }>())
      .step(
        's',
        { limits: [five], retry: { attempts: 3, backoff: 'fixed', initial: '50ms', jitter: false } },
        (_, { attempt }) => {
          starts.push(harness.at())
          if (attempt < 3) throw new Error('again')
        },
      )
      .output(() => 1)
    await harness.start({ store: kind.create(), tasks: [], workflows: [g] })
    const flows = await g.startMany(Array.from({ length: 10 }, (_, n) => ({ n })))
    await harness.clock.advance('8s')
    expect(await Promise.all(flows.map((flow) => flow.result()))).toEqual(flows.map(() => 1))
    expect(starts).toHaveLength(30)
    expectWithin(starts, 5, 5)
    expect(starts.at(-1)).toBeGreaterThanOrEqual(5)
  })

  it('is closed for a key that the other side refuses, without an attempt', async () => {
    const harness = createEngineHarness()
    const starts: { key: string; at: number; attempt: number }[] = []
    const fifty = limit('fifty', { rate: 50, per: '1s' })
    let refused = false
    const g = graph('refused', input<{ key: string }>())
      .step(
        's',
        { limits: [fifty.by(({ input: { key } }) => key)], retry: { attempts: 1 } },
        ({ input: { key } }, { attempt }) => {
          starts.push({ key, at: harness.at(), attempt })
          if (key === 'A' && !refused) {
            refused = true
            throw new RateLimited({ retryAfter: '5s' })
          }
        },
      )
      .output(() => 1)
    await harness.start({ store: kind.create(), tasks: [], workflows: [g] })
    const first = await g.start({ key: 'A' })
    await harness.clock.advance('100ms')
    const others = await g.startMany(['A', 'B', 'A', 'B'].map((key) => ({ key })))
    await harness.clock.advance('6s')
    expect(await Promise.all([first, ...others].map((flow) => flow.result()))).toEqual([1, 1, 1, 1, 1])
    expect(starts.filter(({ key }) => key === 'B').map(({ at }) => at)).toEqual([0.1, 0.1])
    expect(starts.filter(({ key }) => key === 'A').map(({ at }) => at)).toEqual([0, 5, 5.02, 5.04])
    expect(starts.every(({ attempt }) => attempt === 1)).toBe(true)
  })
})
