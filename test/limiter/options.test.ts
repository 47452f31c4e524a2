// Every option of a limit at every backend: it has its effect there, or an error says why it cannot. An option that a
// table does not name is an error of types, so the next one is noticed.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { limit, Sluice, type SluiceOptions, task } from '../../src/exports/index.ts'
import {
  createLimiter,
  type Limit,
  type Limiter,
  type LimiterOptions,
  RateLimitRejected,
} from '../../src/exports/limiter.ts'
import type { BudgetOptions } from '../../src/engine/define/budgets.ts'
import type { PolicyOptions } from '../../src/policy/limits/policy.ts'
import { service } from '../services.ts'
import { namespace, REDIS } from './redis-server.ts'

type Place = 'memory' | 'redis' | 'nats' | 'store' | 'jobs'
/** The refusal by a word of its message, or what a second start does where the limit admits one per 200 ms. */
type Effect = 'waits' | 'rejected' | 'at once' | 'own' | RegExp

const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const addresses: Readonly<Record<Place, string | null>> = {
  memory: 'memory:',
  redis: REDIS,
  nats: await service('nats', 'the options of a limiter on NATS'),
  store: `sqlite:${join(folder, 'limits.db')}`,
  jobs: 'memory:',
}
const PLACES = (Object.keys(addresses) as Place[]).filter((place) => addresses[place] !== null)
const common = limit('common', { rate: 100, per: '1s' })

const everywhere = (effect: Effect): Record<Place, Effect> => ({
  memory: effect,
  redis: effect,
  nats: effect,
  store: effect,
  jobs: effect,
})

/** One or more values of each option, and their effect. `own`: a test of its own below. */
const OPTIONS: Readonly<Record<keyof PolicyOptions, readonly (readonly [object, Record<Place, Effect>])[]>> = {
  onLimit: [
    [{ onLimit: 'drop' }, { ...everywhere('rejected'), jobs: /onLimit is invalid beside backend/ }],
    [{ onLimit: 'reschedule' }, { ...everywhere('waits'), jobs: /onLimit is invalid beside backend/ }],
  ],
  maxWait: [
    [{ maxWait: '20ms' }, everywhere('rejected')],
    [{ maxWait: '1m' }, everywhere('waits')],
  ],
  retries: [
    [
      { retries: 'free' },
      { ...everywhere(/retries 'free'/), store: 'waits', jobs: /retries is invalid beside backend/ },
    ],
  ],
  guard: [[{ guard: '50ms' }, everywhere('own')]],
  scope: [
    [{ scope: 'worker' }, { ...everywhere(/scope 'worker'/), store: /scope/, jobs: /scope is invalid beside backend/ }],
  ],
  backend: [[{ backend: 'other' }, { ...everywhere('waits'), store: /not this store/, jobs: /does not have/ }]],
  onMissingKey: [[{ onMissingKey: 'fail' }, everywhere('own')]],
  headroom: [[{ burst: 2, headroom: { units: 1, priority: 5 } }, everywhere('own')]],
  calibrate: [[{ calibrate: 'headers' }, everywhere('own')]],
  mode: [[{ mode: 'shadow' }, { ...everywhere(/mode 'shadow'/), jobs: /mode is invalid: 'shadow'/ }]],
  of: [
    [{ of: { limit: common, atLeast: '1/s' } }, { ...everywhere(/of, a guaranteed share/), jobs: /of needs budgets/ }],
  ],
  version: [[{ version: 7 }, everywhere('own')]],
}

const one = (more: object): Limit => limit('one', { rate: 5, per: '1s', burst: 1, ...more })

function open(place: Exclude<Place, 'jobs'>, limits: readonly Limit[], name: string, more: object = {}): Limiter {
  return createLimiter({ backend: addresses[place]!, namespace: name, limits, ...more })
}

/** A start that the budget has room for; a server that is slow to answer counts as one that cannot be reached. */
async function granted(limiter: Limiter, use: Limit, priority = 0): Promise<void> {
  for (;;)
    try {
      await limiter.acquire([use], { wait: false, priority })
      return
    } catch (error) {
      if (!(error instanceof RateLimitRejected)) throw error
      await setImmediate()
    }
}

/** The fate of a second start of plain code. */
async function ofCalls(place: Exclude<Place, 'jobs'>, more: object): Promise<string> {
  const tight = one(more)
  const limiter = open(place, [tight], namespace())
  try {
    await granted(limiter, tight)
    const second = limiter.acquire([tight], { wait: '10s' })
    return await second.then(
      () => 'waits',
      (error: unknown) => {
        if (error instanceof RateLimitRejected) return 'rejected'
        throw error
      },
    )
  } finally {
    await limiter.close()
  }
}

/** The fate of jobs whose limit has a backend. */
async function ofJobs(more: object): Promise<string> {
  const tight = one({ backend: 'shared', ...more })
  const work = task('work', { limits: [tight], run: () => undefined })
  const engine = new Sluice({ store: 'sqlite::memory:', budgets: { shared: 'memory:' }, tasks: [work] })
  try {
    await engine.start()
    const jobs = await work.enqueueMany([undefined, undefined, undefined])
    const settled = await Promise.allSettled(jobs.map((job) => job.result()))
    return settled.some(({ status }) => status === 'rejected') ? 'rejected' : 'waits'
  } finally {
    await engine.stop()
  }
}

describe.each(PLACES)('each option of a limit at %s', (place) => {
  const cases = Object.values(OPTIONS)
    .flat()
    .map(([more, effects]) => [JSON.stringify(more), more, effects[place]] as const)

  it.each(cases.filter(([, , effect]) => effect !== 'own'))('%s', async (_name, more, effect) => {
    const seen = async (): Promise<string> => (place === 'jobs' ? ofJobs(more) : ofCalls(place, more))
    if (effect instanceof RegExp) await expect(seen()).rejects.toThrow(effect)
    else expect(await seen()).toBe(effect)
  })
})

describe.each(PLACES.filter((place) => place !== 'jobs'))('options with an effect of their own at %s', (place) => {
  const using = async <T>(limits: readonly Limit[], work: (limiter: Limiter) => Promise<T>, name = namespace()) => {
    const limiter = open(place, limits, name)
    try {
      return await work(limiter)
    } finally {
      await limiter.close()
    }
  }

  it('guard lengthens the period', async () => {
    const { policy } = await using([one({ guard: '50ms' })], (limiter) => limiter.inspect(one({ guard: '50ms' })))
    expect(policy).toMatchObject({ guardUs: 50_000, rule: { periodUs: 1_050_000 } })
  })

  it('headroom is kept for calls of high priority', async () => {
    const kept = one({ burst: 2, headroom: { units: 1, priority: 5 } })
    await using([kept], async (limiter) => {
      await granted(limiter, kept)
      await expect(limiter.acquire([kept], { wait: false })).rejects.toThrow(RateLimitRejected)
      await granted(limiter, kept, 5)
    })
  })

  it('calibrate follows the headers of an answer', async () => {
    const told = one({ rate: 1000, burst: 1000, calibrate: 'headers' })
    await using([told], async (limiter) => {
      const headers = { 'ratelimit-remaining': '0', 'ratelimit-reset': '60' }
      await limiter.run([told], (ctx) => ctx.observe(new Response('', { headers })))
      await expect(limiter.acquire([told], { wait: false })).rejects.toThrow(RateLimitRejected)
    })
  })

  // The buckets of each process in its memory are its own.
  it.skipIf(place === 'memory')('version: the higher one holds', async () => {
    const name = namespace()
    const higher = await using(
      [one({ version: 7 })],
      async (limiter) => {
        await limiter.acquire([one({ version: 7 })])
        return using([one({ rate: 9, version: 6 })], (lower) => lower.inspect(one({ rate: 9, version: 6 })), name)
      },
      name,
    )
    expect(higher.policy).toMatchObject({ version: 7, rule: { rate: 5 } })
  })

  it('onMissingKey is for keys of an input, which a call has not', async () => {
    const keyed = one({ onMissingKey: 'fail' })
    await using([keyed], async (limiter) => {
      await expect(limiter.acquire([keyed.by(() => null)])).rejects.toMatchObject({ code: 'option.invalid' })
      expect(() => keyed.key(null as never)).toThrow('argument of .key() is invalid')
    })
  })

  it.each([{ onLimit: 'drop' }, { maxWait: '1s' }, { retries: 'free' }, { mode: 'shadow' }] as const)(
    'an override of %o is refused where no jobs are',
    async (change) => {
      const overridden = using([one({})], (limiter) => limiter.override('one', change))
      if (place === 'store') await overridden
      else await expect(overridden).rejects.toMatchObject({ code: 'policy.invalid' })
    },
  )
})

describe('each option of a limiter and of budgets', () => {
  /** A wrong value of each, and the option that the error names. */
  const LIMITER: Readonly<Record<keyof LimiterOptions, unknown>> = {
    backend: 'reddis://localhost',
    limits: 'one',
    namespace: '',
    maxWaiting: 0,
    lease: '1ms',
    failMode: 'ajar',
    clock: {},
  }
  const BUDGETS: Readonly<Record<keyof BudgetOptions, unknown>> = {
    backend: 'reddis://localhost',
    namespace: '',
    failMode: 'ajar',
  }

  it.each(Object.entries(LIMITER))('a wrong %s of createLimiter is refused', (name, value) => {
    const options = { backend: 'memory:', limits: [], [name]: value } as LimiterOptions
    expect(() => createLimiter(options)).toThrow(new RegExp(name))
  })

  it.each(Object.keys(LIMITER))('a misspelt %s of createLimiter is refused', (name) => {
    const options = { backend: 'memory:', limits: [], [`${name}x`]: 1 } as LimiterOptions
    expect(() => createLimiter(options)).toThrow(`did you mean ${name}?`)
  })

  it.each(Object.entries(BUDGETS))('a wrong or misspelt %s of budgets is refused', (name, value) => {
    const engine = (budget: object): Sluice =>
      new Sluice({ store: 'sqlite::memory:', tasks: [], budgets: { shared: budget } } as SluiceOptions)
    expect(() => engine({ backend: 'memory:', [name]: value })).toThrow(new RegExp(name))
    expect(() => engine({ backend: 'memory:', [`${name}x`]: 1 })).toThrow(`did you mean ${name}?`)
  })

  it.each(Object.keys(OPTIONS))('a misspelt %s of a limit is refused', (name) => {
    expect(() => one({ [`${name}x`]: 1 })).toThrow(`${name}x (1) is not a field of a policy`)
  })
})
