import { describe, expect, test } from 'vitest'
import { input, type Key, limit, task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

interface Item {
  readonly tenant?: Key | null | undefined
  readonly config?: { readonly provider?: Key | null } | null
}

const refused = { code: 'limit.key.missing' }

describe('a key that is not there', () => {
  test('is refused before anything is written, by a function, by a path and inline', async () => {
    const { clock, start } = createEngineHarness()
    const crm = limit('crm', { rate: 1, per: '1h' })
    let runs = 0
    const run = (): void => void runs++
    const byFunction = task('by.function', input<Item>(), { limits: [crm.by((item) => item.tenant)], run })
    const byPath = task('by.path', input<Item>(), { limits: [crm.by('config.provider')], run })
    const inline = task('inline', input<Item>(), { limits: [{ rate: 1, per: '1h', by: 'tenant' }], run })
    const engine = await start({ tasks: [byFunction, byPath, inline] })
    await expect(byFunction.enqueue({})).rejects.toMatchObject(refused)
    await expect(byFunction.enqueue({ tenant: undefined })).rejects.toMatchObject(refused)
    await expect(byPath.enqueue({})).rejects.toThrow('no value at the path config.provider')
    await expect(byPath.enqueue({ config: null })).rejects.toMatchObject(refused)
    await expect(byPath.enqueue({ config: {} })).rejects.toMatchObject(refused)
    await expect(inline.enqueue({})).rejects.toMatchObject(refused)
    await expect(byFunction.enqueueMany([{ tenant: 'a' }, {}])).rejects.toMatchObject(refused)
    await clock.advance('1s')
    expect([runs, await engine.jobs.list(), await engine.limits.inspect('crm')]).toEqual([0, [], []])
  })

  test('is refused for a limit of a call, of a queue, and of a schedule', async () => {
    const { create } = createEngineHarness()
    const crm = limit('crm', { rate: 1, per: '1h' })
    const work = task('work.item', input<Item>(), { run: () => undefined })
    const queued = task('work.queued', input<Item>(), { queue: 'mail', run: () => undefined })
    const engine = create({
      tasks: [work, queued],
      limits: [crm],
      queues: { default: {}, mail: { limits: [crm.by('tenant')] } },
    })
    await expect(work.enqueue({}, { limits: [crm.by((item) => item.tenant)] })).rejects.toMatchObject(refused)
    await expect(queued.enqueue({})).rejects.toMatchObject(refused)
    await expect(engine.schedule(queued, {}, { name: 'tick', every: '1m' })).rejects.toMatchObject(refused)
    expect(await engine.schedules.list()).toEqual([])
    await engine.stop()
  })

  test('null means unlimited without a word; an empty text likewise, with one warning for each task', async () => {
    const { clock, start, warnings } = createEngineHarness()
    const crm = limit('crm', { rate: 1, per: '1h' })
    const starts: unknown[] = []
    const run = ({ tenant }: Item): void => void starts.push(tenant)
    const one = task('one', input<Item>(), { limits: [crm.by('tenant')], run })
    const two = task('two', input<Item>(), { limits: [crm.by((item) => item.tenant)], run })
    await start({ tasks: [one, two] })
    for (const tenant of [null, null]) for (const each of [one, two]) await each.enqueue({ tenant })
    await clock.advance('1s')
    expect(starts).toEqual([null, null, null, null])
    expect(warnings).toEqual([])
    for (const tenant of ['', '']) for (const each of [one, two]) await each.enqueue({ tenant })
    await clock.advance('1s')
    expect(starts).toHaveLength(8)
    expect(warnings.filter((message) => message.includes("the key is ''"))).toHaveLength(2)
  })

  test('where onMissingKey is given, it holds for null, an empty text and undefined alike', async () => {
    const { clock, start, warnings } = createEngineHarness()
    const uses = (['unlimited', 'fail', 'shared'] as const).map((onMissingKey) =>
      task(`work.${onMissingKey}`, input<Item>(), {
        limits: [limit(onMissingKey, { rate: 1, per: '1h', onMissingKey }).by((item) => item.tenant)],
        run: () => void starts.push(onMissingKey),
      }),
    )
    const starts: string[] = []
    await start({ tasks: uses })
    const [unlimited, fail, shared] = uses
    for (const tenant of [null, '', undefined]) {
      await unlimited?.enqueue({ tenant })
      await shared?.enqueue({ tenant })
      await expect(fail?.enqueue({ tenant })).rejects.toMatchObject(refused)
    }
    await clock.advance('1s')
    expect(starts.sort()).toEqual(['shared', 'unlimited', 'unlimited', 'unlimited'])
    expect(warnings).toEqual([])
  })
})

describe('a weight that is the same for every job and above the burst', () => {
  const burst = limit('burst', { rate: 10, per: '1s', burst: 5 })
  const window = limit('window', { window: 'sliding', max: 5, per: '1s' })
  const permits = limit('permits', { concurrency: 2 })
  const run = (): void => undefined

  test.each([
    ['of a rate', burst.weight(6)],
    ['of a window', window.weight(6)],
    ['of one key', burst.key('acme', { weight: 6 })],
    ['by a function', burst.by((_: unknown) => 'acme', { weight: 6 })],
    ['by a path', burst.by('tenant', { weight: 6 })],
    ['written inline', { rate: 5, per: '1s', weight: 6 } as const],
  ])('%s is refused when the task is registered', (_, use) => {
    const { create } = createEngineHarness()
    const heavy = task('heavy', { limits: [use as typeof burst], run })
    expect(() => create({ tasks: [heavy] })).toThrow(expect.objectContaining({ code: 'limit.weight.above_burst' }))
    expect(() => create({ tasks: [heavy] })).toThrow('task heavy')
  })

  test('is refused for a queue as well, and not where a limit counts no units', () => {
    const { create } = createEngineHarness()
    expect(() => create({ tasks: [], queues: { default: { limits: [burst.weight(6)] } } })).toThrow(
      expect.objectContaining({ code: 'limit.weight.above_burst' }),
    )
    create({ tasks: [task('light', { limits: [burst.weight(5), permits.weight(9)], run })] })
  })
})
