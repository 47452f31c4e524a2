// Graphs that are written in JSON, and graphs that change while flows run, on every store.
import { describe, expect, it } from 'vitest'
import { input, limit, Sluice, type SluiceOptions, task } from '../../src/exports/index.ts'
import { graph, graphFromJson } from '../../src/exports/flows.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness, type EngineHarness } from '../engine/engine-harness.ts'

const stores = await everyStore('graphs in JSON')

const DIGEST = {
  name: 'digest',
  input: { type: 'object', properties: { tenant: { type: 'string' }, urls: { type: 'array' } }, required: ['tenant'] },
  key: 'input.tenant',
  limits: { llm: { rate: 2, per: '1s' } },
  steps: {
    crawl: { task: 'crawl', each: 'input.urls', input: { url: { $ref: 'item' }, at: { $ref: 'index' } } },
    sum: {
      task: 'sum',
      after: ['crawl'],
      input: { pages: { $ref: 'crawl' }, of: { $ref: 'input.tenant' } },
      limits: [{ limit: 'llm', by: 'input.tenant' }],
      retry: { attempts: 2, initial: '1s', jitter: false },
    },
    alarm: {
      task: 'sum',
      after: ['sum'],
      when: { path: 'sum.total', op: 'gt', value: 100 },
      input: { pages: [], of: 'x' },
    },
    approve: { signal: 'approve', within: '1m' },
  },
  output: { total: { $ref: 'sum.total' }, alarm: { $ref: 'alarm' }, by: { $ref: 'approve.by' } },
}

function tasks(harness: EngineHarness): { options: Pick<SluiceOptions, 'tasks'>; sums: number[] } {
  const sums: number[] = []
  const crawl = task('crawl', input<{ url: string; at: number }>(), { run: ({ url, at }) => url.length + at })
  const sum = task('sum', input<{ pages: number[]; of: string }>(), {
    run: ({ pages, of }) => {
      sums.push(harness.at())
      if (sums.length === 1) throw new Error('once')
      return { total: pages.reduce((a, b) => a + b, 0), of }
    },
  })
  return { options: { tasks: [crawl, sum] }, sums }
}

describe.each(stores)('a graph in JSON on $name', (kind) => {
  it('runs its tasks with what their paths lead to', async () => {
    const harness = createEngineHarness()
    const { options, sums } = tasks(harness)
    const digest = graphFromJson(JSON.stringify(DIGEST))
    await harness.start({ store: kind.create(), ...options, workflows: [digest] })
    const flow = await digest.start({ tenant: 'acme', urls: ['aa', 'bbb'] })
    expect(flow.key).toBe('acme')
    await harness.clock.advance('5s')
    await digest.signal({ key: 'acme' }, 'approve' as never, { by: 'ann' } as never)
    await harness.clock.advance('1s')
    expect(await flow.result()).toEqual({ total: 6, by: 'ann' })
    expect(sums).toEqual([0, 1])
  })

  it('refuses an input that is not as it describes', async () => {
    const harness = createEngineHarness()
    const digest = graphFromJson(DIGEST)
    await harness.start({ store: kind.create(), ...tasks(harness).options, workflows: [digest] })
    await expect(digest.start({ urls: [] })).rejects.toMatchObject({ code: 'input.invalid' })
    await expect(digest.start({ tenant: 5, urls: [] })).rejects.toThrow(/input.tenant is not of type string/)
  })

  it('leaves a step of code to a worker that has it', async () => {
    const harness = createEngineHarness()
    const store = kind.create()
    const steps = { ask: { code: true }, end: { code: true, after: ['ask'] } }
    const written = graphFromJson({ name: 'mixed', steps })
    const engine = await harness.start({ store, tasks: [], workflows: [written] })
    const flow = await written.start({ n: 4 })
    await harness.clock.advance('1s')
    const [waiting] = await engine.jobs.list({ task: 'mixed/ask' })
    expect(waiting).toMatchObject({ state: 'available', attempt: 0 })
    const built = graph('mixed', input<{ n: number }>())
      .step('ask', ({ input: { n } }) => n * 2)
      .after('ask')
      .step('end', ({ ask }) => ask + 1)
      .output(({ end }) => end)
    await harness.start({ store, tasks: [], workflows: [built] })
    await harness.clock.advance('5s')
    expect(await flow.result()).toEqual({ end: 9 })
  })
})

describe('an engine with a graph in JSON', () => {
  it('refuses it with every name that the engine does not list', () => {
    const make = (): unknown => new Sluice({ store: 'sqlite::memory:', tasks: [], workflows: [graphFromJson(DIGEST)] })
    expect(make).toThrow(/steps.crawl.task.*steps.sum.task.*steps.alarm.task/)
    const heavy = { name: 'g', steps: { a: { code: true, limits: [{ limit: 'crm', weight: 6 }] } } }
    const crm = limit('crm', { rate: 5, per: '1s' })
    expect(
      () => new Sluice({ store: 'sqlite::memory:', tasks: [], limits: [crm], workflows: [graphFromJson(heavy)] }),
    ).toThrow(
      expect.objectContaining({
        code: 'graph.invalid',
        cause: [expect.objectContaining({ code: 'limit.weight.above_burst' })],
      }),
    )
  })
})

describe.each(stores)('a graph that changed on $name', (kind) => {
  it('ends old flows by their old edges, and begins new ones by the new', async () => {
    const harness = createEngineHarness()
    const store = kind.create()
    const ran: string[] = []
    const old = graph('deploy', input<void>())
      .step('a', () => void ran.push('a'))
      .after('a')
      .sleep('nap', '10s')
      .after('nap')
      .step('b', () => void ran.push('b'))
      .after('b')
      .step('c', () => void ran.push('c'))
      .output(() => 'old')
    const first = await harness.start({ store, tasks: [], workflows: [old] })
    const flows = await old.startMany(Array.from({ length: 10 }, () => undefined))
    await harness.clock.advance('1s')
    await harness.stop(first)
    ran.splice(0)
    const next = graph('deploy', input<void>())
      .step('c', () => void ran.push('c'))
      .after('c')
      .step('b', () => void ran.push('b'))
      .after('b')
      .step('d', () => void ran.push('d'))
      .output(() => 'new')
    expect(next.hash).not.toBe(old.hash)
    const second = await harness.start({ store, tasks: [], workflows: [next] })
    await harness.clock.advance('20s')
    expect(ran).toEqual([...Array.from({ length: 10 }, () => 'b'), ...Array.from({ length: 10 }, () => 'c')])
    ran.splice(0)
    for (const { id } of flows) expect(await second.flows.get(id)).toMatchObject({ state: 'completed' })
    const flow = await next.start()
    await harness.clock.advance('1s')
    expect(await flow.result()).toBe('new')
    expect(ran).toEqual(['c', 'b', 'd'])
  })

  it('waits, uncharged, for a worker that still has the code of a step', async () => {
    const harness = createEngineHarness()
    const store = kind.create()
    const crm = limit('crm', { rate: 1, per: '1h' })
    const build = (hasStep: boolean) => {
      const begun = graph('gone', input<{ t: string }>()).sleep('nap', '5s')
      const more = hasStep
        ? begun
            .after('nap')
            .step('lost', { when: () => true, limits: [crm.by(({ input: { t } }) => t)] }, () => 'found')
            .output(({ lost }) => lost)
        : begun.output(() => 'other')
      return more
    }
    const [full, without] = [build(true), build(false)]
    const first = await harness.start({ store, tasks: [], workflows: [full] })
    const flow = await full.start({ t: 'x' })
    await harness.clock.advance('1s')
    await harness.stop(first)
    const second = await harness.start({ store, tasks: [], workflows: [without] })
    await harness.clock.advance('60s')
    expect(await second.flows.get(flow.id)).toMatchObject({ state: 'running' })
    expect(await second.jobs.list({ task: 'gone/lost' })).toMatchObject([{ state: 'available', attempt: 0 }])
    await harness.stop(second)
    const third = await harness.start({ store, tasks: [], workflows: [full] })
    await harness.clock.advance('10s')
    expect(await third.flows.get(flow.id)).toMatchObject({ state: 'completed' })
  })
})
