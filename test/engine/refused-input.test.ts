import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import {
  type EnqueueOptions,
  input,
  limit,
  type Limit,
  Sluice,
  type SluiceOptions,
  task,
  type TaskOptions,
} from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

/** Values that callers without types may pass. */
function untyped<T>(value: unknown): T {
  return value as T
}

function codeOf(work: () => unknown): string {
  try {
    work()
  } catch (error) {
    return (error as { code?: string }).code ?? String(error)
  }
  return 'nothing was refused'
}

describe('a policy is refused when it', () => {
  test.each([
    ['has a rate of zero', { rate: 0, per: '1s' }],
    ['has a negative rate', { rate: -1, per: '1s' }],
    ['has a rate that is no number', { rate: Number.NaN, per: '1s' }],
    ['has an endless rate', { rate: Infinity, per: '1s' }],
    ['has half a unit', { rate: 0.5, per: '1s' }],
    ['has a rate as text', { rate: '5', per: '1s' }],
    ['has no period', { rate: 1 }],
    ['has a period of zero', { rate: 1, per: 0 }],
    ['has a negative period', { rate: 1, per: -1000 }],
    ['has a period without a known unit', { rate: 1, per: '1x' }],
    ['has a burst of zero', { rate: 1, per: '1s', burst: 0 }],
    ['has a misspelt field', { rate: 1, per: '1s', burts: 2 }],
    ['mixes two rules', { rate: 1, window: 'sliding', max: 5, per: '1s' }],
    ['limits nothing', {}],
    ['has an unknown window', { window: 'rolling', max: 5, per: '1s' }],
    ['has a negative concurrency', { concurrency: -1 }],
    ['has an unknown behaviour', { rate: 1, per: '1s', onLimit: 'ignore' }],
    ['is nothing', null],
  ])('%s', (_, policy) => {
    expect(codeOf(() => limit('x', untyped(policy)))).toBe('policy.invalid')
  })
})

describe('a task is refused when it has', () => {
  const run = (): void => undefined
  test.each([
    ['an empty name', '', { run }, 'task.name.invalid'],
    ['upper case in its name', 'Tenant.Sync', { run }, 'task.name.invalid'],
    ['a blank in its name', 'tenant sync', { run }, 'task.name.invalid'],
    ['dots side by side', 'tenant..sync', { run }, 'task.name.invalid'],
    ['a number for a name', 42, { run }, 'task.name.invalid'],
    ['no handler', 'tenant.sync', {}, 'option.invalid'],
    ['a misspelt option', 'tenant.sync', { run, limts: [] }, 'option.invalid'],
    ['a misspelt retry option', 'tenant.sync', { run, retry: { atempts: 3 } }, 'retry.invalid'],
    ['no attempts', 'tenant.sync', { run, retry: { attempts: 0 } }, 'retry.invalid'],
    ['a negative timeout', 'tenant.sync', { run, timeout: -1 }, 'duration.invalid'],
    ['a bad inline limit', 'tenant.sync', { run, limits: [{ rate: 0, per: '1s' }] }, 'policy.invalid'],
  ])('%s', (_, name, options, code) => {
    expect(codeOf(() => task(untyped<string>(name), untyped<TaskOptions<void, void>>(options)))).toBe(code)
  })
})

describe('an engine is refused when it has', () => {
  const work = task('work.item', { run: () => undefined })
  const store = 'sqlite::memory:'
  test.each([
    ['no tasks', { store }, 'option.invalid'],
    ['a misspelt option', { store, tasks: [], queue: {} }, 'option.invalid'],
    ['something that is no task', { store, tasks: [{ name: 'work.item' }] }, 'option.invalid'],
    ['two tasks of one name', { store, tasks: [work, task('work.item', { run: () => 1 })] }, 'task.conflict'],
    ['something that is no limit', { store, tasks: [], limits: [{ name: 'crm' }] }, 'option.invalid'],
    ['an unknown store', { store: 'mongodb://localhost', tasks: [] }, 'store.url.invalid'],
    ['no path', { store: 'sqlite:', tasks: [] }, 'store.url.invalid'],
    ['a queue without a proper name', { store, tasks: [], queues: { 'Mail High': {} } }, 'queue.invalid'],
    [
      'a queue with fewer than no slots',
      { store, tasks: [], queues: { default: { concurrency: -1 } } },
      'option.invalid',
    ],
    ['a queue of half a slot', { store, tasks: [], queues: { default: { concurrency: 1.5 } } }, 'option.invalid'],
    ['an event window that is too short', { store, tasks: [], eventWindow: '10ms' }, 'option.invalid'],
    ['events that are no switch', { store, tasks: [], events: 'off' as unknown as boolean }, 'option.invalid'],
    ['a lease that is too short', { store, tasks: [], lease: '10ms' }, 'option.invalid'],
    ['a heartbeat without an interval', { store, tasks: [], heartbeat: 0 }, 'option.invalid'],
    ['a heartbeat that rounds to none', { store, tasks: [], heartbeat: 0.0001 }, 'option.invalid'],
    ['an unknown durability', { store, tasks: [], durability: 'none' }, 'option.invalid'],
  ])('%s', (_, options, code) => {
    expect(codeOf(() => new Sluice(untyped<SluiceOptions>(options)))).toBe(code)
  })

  test('two definitions of one limit that differ', () => {
    const one = limit('crm', { rate: 1, per: '1s' })
    const two = limit('crm', { rate: 2, per: '1s' })
    const tasks = [task('work.one', { limits: [one], run: () => 1 }), task('work.two', { limits: [two], run: () => 1 })]
    expect(codeOf(() => new Sluice({ store, tasks }))).toBe('limit.conflict')
    const same = [one, limit('crm', { rate: 1, per: 1000 })].map((crm, i) =>
      task(`work.same${i}`, { limits: [crm], run: () => 1 }),
    )
    expect(codeOf(() => void new Sluice({ store, tasks: same }).stop())).toBe('nothing was refused')
  })
})

describe('a call is refused, and nothing is written, with', () => {
  interface Item {
    readonly key?: unknown
    readonly weight?: unknown
    readonly payload?: unknown
  }
  const gate = limit('gate', { rate: 5, per: '1s' })
  const strict = limit('strict', { rate: 5, per: '1s', onMissingKey: 'fail' })
  const other = limit('gate', { rate: 6, per: '1s' })
  const cycle: { self?: unknown } = {}
  cycle.self = cycle
  const throwing = (): string => {
    throw new Error('no key')
  }

  test.each<[string, Item, Record<string, unknown>, string]>([
    ['a weight of zero', { weight: 0 }, {}, 'limit.weight.invalid'],
    ['a negative weight', { weight: -1 }, {}, 'limit.weight.invalid'],
    ['a weight that is no number', { weight: Number.NaN }, {}, 'limit.weight.invalid'],
    ['a weight function that throws', { weight: 'throw' }, {}, 'limit.weight.threw'],
    ['a weight above the burst', { weight: 6 }, {}, 'limit.weight.above_burst'],
    ['a key function that throws', { key: 'throw' }, {}, 'limit.key.threw'],
    ['an object for a key', { key: { id: 1 } }, {}, 'limit.key.invalid'],
    ['a key that is no number', { key: Number.NaN }, {}, 'limit.key.invalid'],
    ['a missing key where the limit needs one', {}, { limits: [strict.by(() => null)] }, 'limit.key.missing'],
    ['another limit of a known name', {}, { limits: [other] }, 'limit.conflict'],
    ['something that is no limit', {}, { limits: [{ rate: 1, per: '1s' }] }, 'option.invalid'],
    ['a BigInt in its input', { payload: 10n }, {}, 'payload.unserialisable'],
    ['a cycle in its input', { payload: cycle }, {}, 'payload.unserialisable'],
    ['more than 1 MiB of input', { payload: 'x'.repeat(1024 * 1024) }, {}, 'payload.too_large'],
    ['a misspelt option', {}, { prioritiy: 5 }, 'option.invalid'],
    ['a priority above 100', {}, { priority: 101 }, 'priority.invalid'],
    ['a priority below -100', {}, { priority: -101 }, 'priority.invalid'],
    ['half a priority', {}, { priority: 0.5 }, 'priority.invalid'],
    ['an upper-case queue', {}, { queue: 'Mail' }, 'queue.invalid'],
    ['an empty queue', {}, { queue: '' }, 'queue.invalid'],
    ['a queue name that is too long', {}, { queue: 'q'.repeat(129) }, 'queue.invalid'],
    ['a negative delay', {}, { delay: -5 }, 'duration.invalid'],
    ['a delay without a unit', {}, { delay: '5' }, 'duration.invalid'],
    ['a time that is none', {}, { runAt: new Date('soon') }, 'delay.invalid'],
    ['a time as text', {}, { runAt: '2026-01-01' }, 'delay.invalid'],
    ['both a delay and a time', {}, { delay: '1s', runAt: new Date(0) }, 'delay.invalid'],
    ['an empty unique key', {}, { unique: '' }, 'unique.invalid'],
    ['an unknown conflict rule', {}, { unique: { key: 'k', onConflict: 'skip' } }, 'unique.invalid'],
    ['a unique key function that throws', {}, { unique: { key: throwing } }, 'unique.invalid'],
    ['a BigInt in its meta', {}, { meta: { n: 1n } }, 'payload.unserialisable'],
  ])('%s', async (_, item, options, code) => {
    const { clock, start } = createEngineHarness()
    let runs = 0
    const work = task('work.item', input<Item>(), {
      limits: [
        gate.by(
          ({ key = 'a' }) => {
            if (key === 'throw') throw new Error('no tenant')
            return untyped<string>(key)
          },
          {
            weight: ({ weight = 1 }) => {
              if (weight === 'throw') throw new Error('no units')
              return untyped<number>(weight)
            },
          },
        ),
      ],
      run: () => void runs++,
    })
    const engine = await start({ tasks: [work], limits: [strict] })
    await expect(async () => work.enqueue(item, untyped<EnqueueOptions<Item>>(options))).rejects.toMatchObject({ code })
    expect(await engine.jobs.list()).toEqual([])
    expect(await engine.limits.inspect('gate')).toEqual([])
    await work.enqueue({})
    await clock.advance('1s')
    expect(runs).toBe(1)
  })

  test('an input that its schema refuses, naming the field', async () => {
    const { start } = createEngineHarness()
    const work = task('work.item', z.object({ tenantId: z.string() }), { run: () => undefined })
    const engine = await start({ tasks: [work] })
    const call = work.enqueue(untyped({ tenantId: 42 }))
    await expect(call).rejects.toMatchObject({ code: 'input.invalid' })
    await expect(call).rejects.toThrow('tenantId')
    expect(await engine.jobs.list()).toEqual([])
  })
})

test('the cause of a refusal by a key or a weight function is what it threw', async () => {
  const { start } = createEngineHarness()
  const cause = new Error('no tenant')
  const throws = (): never => {
    throw cause
  }
  const crm: Limit = limit('crm', { rate: 1, per: '1s' })
  const keyed = task('work.keyed', { limits: [crm.by(throws)], run: () => undefined })
  const weighed = task('work.weighed', { limits: [crm.by(() => 'a', { weight: throws })], run: () => undefined })
  await start({ tasks: [keyed, weighed] })
  await expect(keyed.enqueue()).rejects.toMatchObject({
    code: 'limit.key.threw',
    message: expect.stringContaining('its key function threw: no tenant.') as string,
    cause,
  })
  await expect(weighed.enqueue()).rejects.toMatchObject({
    code: 'limit.weight.threw',
    message: expect.stringContaining('its weight function threw: no tenant.') as string,
    cause,
  })
})

test('a key over 1 KiB is kept by its hash, and the budget is its own', async () => {
  const { clock, at, start } = createEngineHarness()
  const starts: string[] = []
  const work = task('work.item', input<{ key: string }>(), {
    limits: [limit('gate', { rate: 1, per: '1m' }).by((item) => item.key)],
    run: ({ key }) => void starts.push(`${key.at(-1) ?? ''}@${at()}`),
  })
  const engine = await start({ tasks: [work] })
  const long = 'k'.repeat(5000)
  for (const last of ['a', 'a', 'b']) await work.enqueue({ key: long + last })
  await clock.advance('2m')
  expect(starts).toEqual(['a@0', 'b@0', 'a@60'])
  for (const { key } of await engine.limits.inspect('gate')) expect(key).toMatch(/^sha256:[0-9a-f]{64}$/)
})
