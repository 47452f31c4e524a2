// Several real processes on one Redis.
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { createLimiter, limit } from '../../src/exports/limiter.ts'
import { expectDecidedWithin } from './decided-starts.ts'
import { clear, connect, namespace, REDIS } from './redis-server.ts'

const client = REDIS === null ? null : await connect()

describe.skipIf(client === null)('several processes on one Redis', () => {
  const children: ChildProcess[] = []
  const used: string[] = []
  const child = (...args: string[]): { process: ChildProcess; line: () => Promise<string> } => {
    const script = join(import.meta.dirname, 'redis-child.ts')
    const started = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(started)
    const lines = createInterface({ input: started.stdout })[Symbol.asyncIterator]()
    return { process: started, line: async () => String((await lines.next()).value) }
  }
  const name = (): string => {
    const made = namespace()
    used.push(made)
    return made
  }

  afterEach(async () => {
    for (const each of children.splice(0)) each.kill('SIGKILL')
    for (const each of used.splice(0)) if (client) await clear(client, each)
  })
  afterAll(async () => client?.close())

  // That a budget is used to the full is shown by a count, in `budgets/hot-key`: a busy machine starts as often as it can.
  it('start on one hot key, each of them, and never more often than its budget lets them', async () => {
    const ns = name()
    const fleet = Array.from({ length: 4 }, () => child('load', REDIS ?? '', ns, '4000'))
    await Promise.all(fleet.map(({ line }) => line()))
    const lists = await Promise.all(fleet.map(async ({ line }) => JSON.parse(await line()) as number[]))
    expectDecidedWithin(lists.flat(), 100, 1)
    expect(lists.flat().length).toBeGreaterThan(100)
    expect(lists.every((list) => list.length > 0)).toBe(true)
  })

  it('see each other’s penalties and pauses with their next call', async () => {
    const ns = name()
    const api = limit('api', { rate: 1000, per: '1s' })
    const [one, other] = [1, 2].map(() => createLimiter({ backend: REDIS ?? '', namespace: ns, limits: [api] }))
    if (!one || !other) throw new Error('two limiters')
    await other.acquire([api])
    await one.penalize(api, '1s')
    await expect(other.acquire([api], { wait: '500ms' })).rejects.toMatchObject({ limit: 'api' })
    await one.pause(api.name, { until: '10m', by: 'ops', reason: 'drill' })
    expect((await other.inspect(api)).policy.concurrency).toBe(0)
    expect(await other.resume(api)).toBe(true)
    await Promise.all([one.close(), other.close()])
  })

  it('leave no keys behind once their buckets are as new', async () => {
    const ns = name()
    const api = limit('api', { rate: 100, per: '100ms' })
    const limiter = createLimiter({ backend: REDIS ?? '', namespace: ns, limits: [api] })
    await Promise.all(Array.from({ length: 2000 }, (_, i) => limiter.acquire([api.key(i)])))
    const left = async (): Promise<number> => {
      const keys = await client?.sendCommand(['KEYS', `{sluice:${ns}}:b:*`])
      return Array.isArray(keys) ? keys.length : -1
    }
    await expect.poll(left).toBe(0)
    expect(await limiter.inspect(api.key(7))).toMatchObject({ available: 100, active: 0 })
    await limiter.close()
  })
})
