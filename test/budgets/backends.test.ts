// Several real processes at one backend, on each that processes can share.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createLimiter, limit, type Limiter } from '../../src/exports/limiter.ts'
import { namespace, REDIS } from '../limiter/redis-server.ts'
import { service } from '../services.ts'
import { everyStore } from '../stores.ts'

const NATS = await service('nats', 'processes at one limiter on NATS')
const BACKENDS: readonly (readonly [string, () => string])[] = [
  ...(await everyStore('processes at one limiter')).map(({ name, create }) => [name, () => create()] as const),
  ...(REDIS === null ? [] : [['redis', () => REDIS ?? ''] as const]),
  ...(NATS === null ? [] : [['nats', () => NATS] as const]),
]
const slots = limit('slots', { concurrency: 10 })
const api = limit('api', { rate: 10, per: '1s', burst: 1 })
const tenants = limit('tenants', { rate: 5, per: '10h' })
const all = limit('all', { rate: 100, per: '10h' })
const LEASE_MS = 2000
/** A heartbeat extends a lease after a third of it: so much is left of it at least. */
const LEFT_MS = (LEASE_MS * 2) / 3

describe.each(BACKENDS)('processes at one backend on %s', (name, create) => {
  function open(): { limiter: Limiter; other: (role: string, count: number) => Promise<ChildProcess> } {
    const [backend, space] = [create(), namespace()]
    const limiter = createLimiter({ backend, namespace: space, limits: [slots, api, tenants, all], lease: LEASE_MS })
    onTestFinished(() => limiter.close())
    const other = async (role: string, count: number): Promise<ChildProcess> => {
      const args = [join(import.meta.dirname, 'backend-child.ts'), role, backend, space, String(count)]
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
      onTestFinished(() => void child.kill('SIGKILL'))
      const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
      expect(value).toBe('held')
      return child
    }
    return { limiter, other }
  }

  // Where the store of the jobs is the backend, the leases are those of test/crash.
  it.each(name === 'redis' || name === 'nats' ? ['hold', 'work'] : ['hold'])(
    'get the 10 permits of one that is killed (%s) back when their lease is over, and none before',
    async (role) => {
      const { limiter, other } = open()
      await limiter.inspect(slots)
      const holder = await other(role, 10)
      expect((await limiter.inspect(slots)).active).toBe(10)
      const gone = once(holder, 'exit')
      holder.kill('SIGKILL')
      await gone
      const killedMs = performance.now()
      const back = await Promise.all(
        Array.from({ length: 10 }, async () => {
          await limiter.acquire([slots], { wait: '60s' })
          return performance.now() - killedMs
        }),
      )
      expect(Math.min(...back)).toBeGreaterThan(LEFT_MS - 100)
      expect(Math.max(...back)).toBeLessThan(10 * LEASE_MS)
      expect((await limiter.inspect(slots)).active).toBe(10)
    },
  )

  it('obey the penalty of another with their next call', async () => {
    const { limiter, other } = open()
    await limiter.acquire([api.key('a')])
    const beganMs = performance.now()
    await other('penalize', 60_000)
    const refused = limiter.acquire([api.key('a')], { wait: '1s' })
    await expect(refused).rejects.toMatchObject({ code: 'limit.rejected', limit: 'api', key: 'a' })
    const { closedUntil } = await limiter.inspect(api.key('a'))
    const closedMs = (closedUntil?.getTime() ?? 0) - Date.now()
    expect(closedMs).toBeGreaterThan(60_000 - (performance.now() - beganMs))
    expect(closedMs).toBeLessThanOrEqual(60_000)
    await (await limiter.acquire([api.key('b')], { wait: '10s' })).release()
  })

  it('follow the override of another for as long as it says', async () => {
    const { limiter, other } = open()
    const rate = async (): Promise<unknown> => (await limiter.inspect(api)).policy.rule
    expect(await rate()).toMatchObject({ rate: 10 })
    const beganMs = performance.now()
    await other('override', 4000)
    const seen = await rate()
    if (performance.now() < beganMs + 4000) expect(seen).toMatchObject({ rate: 1000 })
    await expect.poll(rate, { interval: 10 }).toMatchObject({ rate: 10 })
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(4000)
    expect(await limiter.removeOverride(api)).toBe(false)
  })

  it('start what two limits allow, and a key that is used up costs the common one nothing', async () => {
    const { limiter } = open()
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
