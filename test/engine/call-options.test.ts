// Options of single calls: timeout and retry, and options that differ from call to call.
import { describe, expect, test } from 'vitest'
import { call, type EnqueueOptions, input, task, type TaskOptions } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness, record } from './engine-harness.ts'

type RetryOptions = NonNullable<TaskOptions<void, void>['retry']>

const stores = await everyStore('options of single calls')

describe.each(stores)('the options of one call, on $name', (kind) => {
  /** A task that takes ten seconds or fails, and the seconds of its starts by the name in its input. */
  async function working() {
    const harness = createEngineHarness()
    const { clock } = harness
    const starts: string[] = []
    const work = task('work.item', input<{ name: string; fails?: boolean }>(), {
      retry: { attempts: 2, backoff: 'fixed', initial: '7s', jitter: false },
      timeout: '1m',
      run: async ({ name, fails }) => {
        starts.push(`${name}@${harness.at()}`)
        if (fails) throw new Error('no')
        await clock.sleep('10s')
        return name
      },
    })
    const engine = await harness.start({ store: kind.create(), tasks: [work] })
    return { ...harness, engine, work, starts }
  }

  test('retry takes the place of its task’s, from attempts to jitter', async () => {
    const { clock, engine, work, starts } = await working()
    const retry: RetryOptions = { attempts: 4, backoff: 'linear', initial: '1s', jitter: false }
    const own = await work.enqueue({ name: 'own', fails: true }, { retry })
    await work.enqueue({ name: 'task', fails: true })
    const once = await work.enqueue({ name: 'once', fails: true }, { retry: { attempts: 1 }, meta: { a: 1 } })
    await clock.advance('1m')
    expect(starts.filter((each) => each.startsWith('own'))).toEqual(['own@0', 'own@1', 'own@3', 'own@6'])
    expect(starts.filter((each) => each.startsWith('task'))).toEqual(['task@0', 'task@7'])
    expect(starts.filter((each) => each.startsWith('once'))).toEqual(['once@0'])
    expect(await engine.jobs.get(own.id)).toMatchObject({ state: 'discarded', attempt: 4, maxAttempts: 4, meta: {} })
    expect(await engine.jobs.get(once.id)).toMatchObject({ maxAttempts: 1, meta: { a: 1 } })
  })

  test('timeout takes the place of its task’s, at each attempt', async () => {
    const { clock, engine, work, starts } = await working()
    const failed = record(engine, 'job.failed')
    const short = await work.enqueue({ name: 'short' }, { timeout: '3s' })
    const long = await work.enqueue({ name: 'long' }, { timeout: '11s', tags: ['x'] })
    await clock.advance('1m')
    expect(starts).toEqual(['short@0', 'long@0', 'short@10'])
    expect(failed.map(({ event }) => (event.error as { code?: string }).code)).toEqual(['job.timeout', 'job.timeout'])
    expect(failed[0]?.event.error.message).toContain('3000 ms')
    expect(await engine.jobs.get(short.id)).toMatchObject({ state: 'discarded', attempt: 2 })
    expect(await engine.jobs.get(long.id)).toMatchObject({ state: 'completed', tags: ['x'] })
  })

  test('hold in a chain, a group and a batch with its callback, also for those that wait for others', async () => {
    const { clock, engine, work, starts } = await working()
    const fast: RetryOptions = { attempts: 3, backoff: 'none' }
    const once: RetryOptions = { attempts: 1 }
    const chain = await engine.flows.start({
      kind: 'chain',
      steps: [call(work, { name: 'first' }), call(work, { name: 'second' }, { timeout: '2s', retry: fast })],
    })
    const group = await engine.flows.start({
      kind: 'group',
      jobs: [call(work, { name: 'one' }, { timeout: '1s', retry: once }), call(work, { name: 'two' })],
    })
    const batch = await engine.flows.start({
      kind: 'batch',
      jobs: [call(work, { name: 'part', fails: true }, { retry: once })],
      callbacks: { onFailure: call(work, { name: 'undo', fails: true }, { retry: fast }) },
    })
    await clock.advance('1m')
    const ofName = (name: string): string[] => starts.filter((each) => each.startsWith(`${name}@`))
    expect(ofName('second')).toEqual(['second@10', 'second@12', 'second@14'])
    expect(ofName('one')).toEqual(['one@0'])
    expect(ofName('part')).toEqual(['part@0'])
    expect(ofName('undo')).toEqual(['undo@0', 'undo@0', 'undo@0'])
    const states = await Promise.all([chain, group, batch].map(async ({ id }) => (await engine.flows.get(id))?.state))
    expect(states).toEqual(['failed', 'failed', 'failed'])
  })

  test.each<[string, unknown, string, string]>([
    ['no attempts', { retry: { attempts: 0 } }, 'retry.invalid', 'attempts'],
    ['a misspelt member', { retry: { atempts: 3 } }, 'retry.invalid', 'did you mean attempts?'],
    ['retry as a number', { retry: 3 }, 'retry.invalid', 'Expected an object'],
    ['a negative timeout', { timeout: -1 }, 'duration.invalid', 'timeout of a call of task work.item'],
    ['a timeout without a unit', { timeout: '30' }, 'duration.invalid', 'has no unit'],
    ['attempts beside retry', { attempts: 3 }, 'option.invalid', 'did you mean retry?'],
  ])('are refused when wrong: %s, and nothing is stored', async (_, options, code, words) => {
    const { engine, work } = await working()
    const refused = { code, message: expect.stringContaining(words) as string }
    const wrong = options as EnqueueOptions<unknown>
    await expect(work.enqueue({ name: 'a' }, wrong)).rejects.toMatchObject(refused)
    await expect(work.enqueueMany([{ name: 'a' }], () => wrong)).rejects.toMatchObject(refused)
    const steps = [call(work, { name: 'a' }), call(work, { name: 'b' }, wrong)]
    await expect(engine.flows.start({ kind: 'chain', steps })).rejects.toMatchObject(refused)
    expect(await engine.jobs.list()).toEqual([])
  })

  test('may differ from input to input of one enqueueMany', async () => {
    const { clock, engine, work, starts } = await working()
    const names = ['a', 'b', 'c'].map((name) => ({ name }))
    const jobs = await work.enqueueMany(names, ({ name }, index) => ({
      delay: index * 1000,
      priority: index,
      unique: name,
    }))
    expect((await engine.jobs.list()).map(({ priority }) => priority)).toEqual([2, 1, 0])
    expect((await work.enqueueMany(names, ({ name }) => ({ unique: name }))).map(({ id }) => id)).toEqual(
      jobs.map(({ id }) => id),
    )
    await clock.advance('3s')
    expect(starts).toEqual(['a@0', 'b@1', 'c@2'])
  })

  test.each<[string, (name: string) => unknown, string]>([
    ['an option that does not exist', () => ({ dealy: 1 }), 'did you mean delay?'],
    ['nothing', () => undefined, 'is invalid: undefined'],
    ['a promise', async () => ({}), 'Expected an object'],
    ['a list', () => [], 'Expected an object'],
    ['different transactions', (name) => (name === 'a' ? { tx: {} } : {}), 'different tx'],
  ])('are refused when a function gives %s, and nothing is stored', async (_, options, words) => {
    const { engine, work } = await working()
    const stored = work.enqueueMany(
      ['a', 'b'].map((name) => ({ name })),
      ({ name }) => options(name) as EnqueueOptions<unknown>,
    )
    await expect(stored).rejects.toMatchObject({
      code: 'option.invalid',
      message: expect.stringContaining(words) as string,
    })
    expect(await engine.jobs.list()).toEqual([])
  })

  test('and an error of that function is the error of enqueueMany', async () => {
    const { engine, work } = await working()
    const stored = work.enqueueMany([{ name: 'a' }], () => {
      throw new TypeError('no price')
    })
    await expect(stored).rejects.toThrow('no price')
    expect(await engine.jobs.list()).toEqual([])
  })
})
