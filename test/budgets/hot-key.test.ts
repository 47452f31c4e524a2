// 16 real processes at one budget of 100 starts, on each backend.
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { createLimiter, limit } from '../../src/exports/limiter.ts'
import { service } from '../services.ts'
import { everyStore } from '../stores.ts'
import { HOT } from './hot-key-policy.ts'

const PROCESSES = 16
const REDIS = await service('redis', '16 processes on Redis')
const NATS = await service('nats', '16 processes on NATS')
const STORES = await everyStore('16 processes')
const namespace = (): string => `test-${process.pid}-${Date.now().toString(36)}`

interface Fleet {
  readonly starts: () => number
  /** How often a process found that the backend does not answer. */
  readonly downs: () => number
  /** Every process that calls has been refused. */
  readonly refused: Promise<unknown>
}

describe(`16 processes at one budget of ${HOT.rate} starts`, () => {
  const children: ChildProcess[] = []
  afterEach(() => {
    for (const each of children.splice(0)) each.kill('SIGKILL')
  })

  /** All begin together, once all are there. */
  async function fleet(roleOf: (i: number) => 'calls' | 'jobs', backend: string, space: string): Promise<Fleet> {
    const counts = { '+': 0, down: 0 }
    const members = Array.from({ length: PROCESSES }, (_, i) => {
      const role = roleOf(i)
      const args = [join(import.meta.dirname, 'hot-key-child.ts'), role, backend, space]
      const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
      children.push(child)
      const told = { ready: Promise.withResolvers<void>(), refused: Promise.withResolvers<void>() }
      createInterface({ input: child.stdout }).on('line', (line) => {
        if (line === '+' || line === 'down') counts[line]++
        else told[line as keyof typeof told].resolve()
      })
      return { child, role, ready: told.ready.promise, refused: told.refused.promise }
    })
    await Promise.all(members.map(({ ready }) => ready))
    for (const { child } of members) child.stdin.write('go\n')
    const refused = Promise.all(members.filter(({ role }) => role === 'calls').map((each) => each.refused))
    return { starts: () => counts['+'], downs: () => counts.down, refused }
  }

  const stores = STORES.map(({ name, create }) => ({ name, backend: () => create() }))
  const servers = [
    { name: 'redis', backend: () => REDIS ?? '' },
    { name: 'nats', backend: () => NATS ?? '' },
  ].filter(({ backend }) => backend() !== '')

  it.each([...stores, ...servers])('on $name: calls of all start 100 times, and no more', async ({ backend }) => {
    const { starts, refused } = await fleet(() => 'calls', backend(), namespace())
    await refused
    expect(starts()).toBe(HOT.rate)
  })

  it.each(servers)(
    'on $name: jobs of 8 stores and calls of 8 processes: each unit is one start, or still there',
    async ({ backend }) => {
      const space = namespace()
      const { starts, downs, refused } = await fleet((i) => (i % 2 === 0 ? 'jobs' : 'calls'), backend(), space)
      await refused
      const api = limit('api', HOT)
      const limiter = createLimiter({ backend: backend(), namespace: space, limits: [api] })
      onTestFinished(() => limiter.close())
      // A payment that comes too late for its start goes back, and those that were refused before do not ask again. To give
      // it back twice could exceed the budget: where the server does not answer in time, it may lapse.
      const left = async (): Promise<number> => Math.floor((await limiter.inspect(api)).available)
      await expect.poll(async () => downs() > 0 || (await left()) + starts() === HOT.rate).toBe(true)
      expect((await left()) + starts()).toBeLessThanOrEqual(HOT.rate)
      expect(starts()).toBeGreaterThan(0)
    },
  )
})
