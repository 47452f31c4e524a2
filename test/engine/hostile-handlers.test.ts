import { expect, test } from 'vitest'
import { input, limit, RateLimited, task } from '../../src/exports/index.ts'
import { record, createEngineHarness } from './engine-harness.ts'

const throwsAt = (name: string): Error =>
  Object.defineProperty(new Error('x'), name, {
    get() {
      throw new Error('getter')
    },
  })

const refusal = (): Error =>
  new RateLimited(
    { retryAfter: '1s' },
    {
      get() {
        throw new Error('headers')
      },
    },
  )

const THROWN: Readonly<Record<string, () => unknown>> = {
  'an object without prototype': () => Object.create(null) as unknown,
  'a toString that throws': () => ({
    toString() {
      throw new Error('no')
    },
  }),
  'a symbol': () => Symbol('s'),
  nothing: () => undefined,
  'a name that is a symbol': () => Object.assign(new Error('x'), { name: Symbol('n') }),
  'a message that throws': () => throwsAt('message'),
  'a code that throws': () => throwsAt('code'),
  'a proxy whose prototype cannot be asked': () =>
    new Proxy(
      {},
      {
        getPrototypeOf() {
          throw new Error('trap')
        },
      },
    ),
  'what looks like a refusal, and is none': () =>
    Object.assign(new Error('x'), { name: 'RateLimited', retryAfter: 5, limitName: 7 }),
  'a long code': () => Object.assign(new Error('x'), { code: 'E'.repeat(1e6) }),
  'a long message': () => new Error(`${'x'.repeat(7991)}${'😀'.repeat(1e5)}`),
  'a NUL': () => Object.assign(new Error('a\0b\ud800'), { code: 'E\0' }),
}

test.each(Object.entries(THROWN))('is a failed attempt, and no more: a handler that throws %s', async (_, thrown) => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', input<string>(), {
    retry: { attempts: 2, backoff: 'none' },
    run: (which) => {
      if (which === 'odd') throw thrown()
    },
  })
  const engine = await start({ tasks: [work], queues: { default: { concurrency: 1 } } })
  const failures = record(engine, 'job.failed', 'job.discarded')
  const odd = await work.enqueue('odd')
  const plain = await work.enqueue('plain')
  await clock.advance('1m')
  expect((await engine.jobs.get(plain.id))?.state).toBe('completed')
  const job = await engine.jobs.get(odd.id)
  expect(job).toMatchObject({ state: 'discarded', attempt: 2 })
  expect(job?.error?.code.length).toBeLessThanOrEqual(255)
  expect(job?.error?.message.length).toBeLessThanOrEqual(8000)
  expect(job?.error?.message.isWellFormed()).toBe(_ !== 'a NUL')
  expect(failures.map(({ name }) => name)).toEqual(['job.failed', 'job.failed', 'job.discarded'])
  await expect(odd.result()).rejects.toMatchObject({ code: 'job.discarded' })
})

const RETURNED: Readonly<Record<string, () => unknown>> = {
  'a BigInt': () => ({ a: 1n }),
  'a toJSON that throws what cannot be made a text': () => ({
    toJSON() {
      throw Object.create(null)
    },
  }),
  'a getter that throws': () => ({
    get a(): never {
      throw throwsAt('message')
    },
  }),
  'a function': () => () => 1,
  'too much': () => 'x'.repeat(3e6),
  'a then that throws': () => ({
    // oxlint-disable-next-line unicorn/no-thenable
    get then(): never {
      throw Symbol('then') as unknown as Error
    },
  }),
}

test.each(Object.entries(RETURNED))('is a failed attempt, and no more: a handler that returns %s', async (_, value) => {
  const { clock, start } = createEngineHarness()
  const work = task('work.item', { retry: { attempts: 1 }, run: () => value() })
  const engine = await start({ tasks: [work] })
  const job = await work.enqueue()
  await clock.advance('1m')
  expect((await engine.jobs.get(job.id))?.state).toBe('discarded')
})

test('callbacks, listeners and loggers that throw or reject end no other work`s work', async () => {
  const { clock, start } = createEngineHarness()
  const fail = (): never => {
    throw Object.create(null)
  }
  const rejects = ((): Promise<never> => new Promise(fail)) as () => never
  const work = task('work.item', input<number>(), {
    retry: { attempts: 2, backoff: 'none' },
    run: (n) => {
      if (n === 0) throw new Error('failed')
    },
    onRetry: rejects,
    onError: fail,
  })
  const engine = await start({ tasks: [work], logger: { debug: fail, info: fail, warn: fail, error: fail } })
  for (const name of ['job.started', 'job.failed', 'job.retrying', 'job.discarded'] as const) {
    engine.on(name, fail)
    engine.on(name, rejects)
  }
  const jobs = [await work.enqueue(0), await work.enqueue(1)]
  await clock.advance('1m')
  const states = await Promise.all(jobs.map(async ({ id }) => (await engine.jobs.get(id))?.state))
  expect(states).toEqual(['discarded', 'completed'])
})

test('a refusal whose headers cannot be read still closes the budget, and its job comes back', async () => {
  const { clock, start } = createEngineHarness()
  const crm = limit('crm', { rate: 10, per: '1s', calibrate: { from: 'headers' } })
  let refused = 0
  const work = task('work.item', {
    limits: [crm],
    run: () => {
      if (refused++ === 0) throw refusal()
    },
  })
  const engine = await start({ tasks: [work] })
  const job = await work.enqueue()
  await clock.advance('10s')
  expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'completed', attempt: 1 })
})

test.each([
  ['a limit that no store can keep the name of', { limit: 'crm\0' }],
  ['a key that no store can keep', { limit: 'crm', key: 'a\0b\ud800' }],
])('a refusal that names %s is settled as any other', async (_, named) => {
  const { clock, start } = createEngineHarness()
  const crm = limit('crm', { rate: 10, per: '1s' })
  let refused = 0
  const work = task('work.item', input<string>(), {
    limits: [crm.by((key) => key)],
    run: () => {
      if (refused++ === 0) throw new RateLimited({ retryAfter: '1s', ...named })
    },
  })
  const engine = await start({ tasks: [work] })
  const job = await work.enqueue('acme')
  await clock.advance('2m')
  expect((await engine.jobs.get(job.id))?.state).toBe('completed')
})
