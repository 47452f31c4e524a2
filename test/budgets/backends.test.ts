// Several real processes at one backend, on each that processes can share.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, it, type TestContext } from 'vitest'
import { createLimiter, limit, type Limiter } from '../../src/exports/limiter.ts'
import { namespace, REDIS } from '../limiter/redis-server.ts'
import { service } from '../services.ts'
import { everyStore, type OnEnd } from '../stores.ts'

const NATS = await service('nats', 'processes at one limiter on NATS')
const BACKENDS: readonly (readonly [string, (onEnd: OnEnd) => string])[] = [
  ...(await everyStore('processes at one limiter')).map(({ name, create }) => [name, create] as const),
  ...(REDIS === null ? [] : [['redis', () => REDIS ?? ''] as const]),
  ...(NATS === null ? [] : [['nats', () => NATS] as const]),
]
const slots = limit('slots', { concurrency: 10 })
const api = limit('api', { rate: 10, per: '1s', burst: 1 })
const tenants = limit('tenants', { rate: 5, per: '10h' })
const all = limit('all', { rate: 100, per: '10h' })
const LEASE_MS = 2000
/** The clocks of a backend and of its processes may differ by so much. */
const CLOCKS_MS = 100

interface Other {
  readonly child: ChildProcess
  /** When it began to ask, epoch ms. */
  readonly askedMs: number
}

// They wait for leases and for children, and so beside each other.
describe.concurrent.each(BACKENDS)('processes at one backend on %s', (name, create) => {
  function open({ expect, onTestFinished }: TestContext): {
    limiter: Limiter
    other: (role: string, count: number) => Promise<Other>
  } {
    const [backend, space] = [create(onTestFinished), namespace()]
    const limiter = createLimiter({ backend, namespace: space, limits: [slots, api, tenants, all], lease: LEASE_MS })
    onTestFinished(() => limiter.close())
    const other = async (role: string, count: number): Promise<Other> => {
      const args = [join(import.meta.dirname, 'backend-child.ts'), role, backend, space, String(count)]
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
      onTestFinished(() => void child.kill('SIGKILL'))
      const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
      expect(value).toMatch(/^held \d+$/)
      return { child, askedMs: Number(String(value).slice('held '.length)) }
    }
    return { limiter, other }
  }

  // Where the store of the jobs is the backend, the leases are those of test/crash.
  it.for(name === 'redis' || name === 'nats' ? ['hold', 'work'] : ['hold'])(
    'get the 10 permits of one that is killed (%s) back when their lease is over, and none before',
    async (role, context) => {
      const { expect } = context
      const { limiter, other } = open(context)
      await limiter.inspect(slots)
      const { child: holder, askedMs } = await other(role, 10)
      expect((await limiter.inspect(slots)).active).toBe(10)
      const gone = once(holder, 'exit')
      holder.kill('SIGKILL')
      await gone
      const back = await Promise.all(
        Array.from({ length: 10 }, async () => {
          await limiter.acquire([slots], { wait: '60s' })
          return Date.now() - askedMs
        }),
      )
      // A lease lasts from the grant or from its last extension, and neither is before the holder asked.
      expect(Math.min(...back)).toBeGreaterThan(LEASE_MS - CLOCKS_MS)
      expect((await limiter.inspect(slots)).active).toBe(10)
    },
  )

  it('obey the penalty of another with their next call', async (context) => {
    const { expect } = context
    const { limiter, other } = open(context)
    await limiter.acquire([api.key('a')])
    const { askedMs } = await other('penalize', 60_000)
    const refused = limiter.acquire([api.key('a')], { wait: '1s' })
    await expect(refused).rejects.toMatchObject({ code: 'limit.rejected', limit: 'api', key: 'a' })
    const { closedUntil } = await limiter.inspect(api.key('a'))
    const closedMs = (closedUntil?.getTime() ?? 0) - Date.now()
    expect(closedMs).toBeGreaterThan(60_000 - CLOCKS_MS - (Date.now() - askedMs))
    expect(closedMs).toBeLessThanOrEqual(60_000 + CLOCKS_MS)
    await (await limiter.acquire([api.key('b')], { wait: '10s' })).release()
  })

  it('follow the override of another for as long as it says', async (context) => {
    const { expect } = context
    const { limiter, other } = open(context)
    const rate = async (): Promise<unknown> => (await limiter.inspect(api)).policy.rule
    expect(await rate()).toMatchObject({ rate: 10 })
    const { askedMs } = await other('override', 4000)
    const seen = await rate()
    if (Date.now() < askedMs + 4000 - CLOCKS_MS) expect(seen).toMatchObject({ rate: 1000 })
    await expect.poll(rate, { interval: 10 }).toMatchObject({ rate: 10 })
    expect(Date.now() - askedMs).toBeGreaterThan(4000 - CLOCKS_MS)
    expect(await limiter.removeOverride(api)).toBe(false)
  })

  it('start what two limits allow, and a key that is used up costs the common one nothing', async (context) => {
    const { expect } = context
    const { limiter } = open(context)
    const uses = (tenant: string) => [tenants.key(tenant), all]
    const first = Array.from({ length: 50 }, () => limiter.acquire(uses('t0'), { wait: '60s' }))
    const rest = Array.from({ length: 95 }, (_, i) => limiter.acquire(uses(`t${1 + (i % 19)}`), { wait: '60s' }))
    const waiting = Promise.allSettled([...first, ...rest])
    await Promise.all([...first.slice(0, 5), ...rest])
    await expect(limiter.acquire([all], { wait: '60s' })).rejects.toMatchObject({ code: 'limit.rejected' })
    await limiter.close()
    const { length } = (await waiting).filter(({ status }) => status === 'fulfilled')
    expect(length).toBe(100)
  })
})
