// 16 real processes at one budget of 100 starts, on each backend.
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, it } from 'vitest'
import { service } from '../services.ts'
import { everyStore } from '../stores.ts'

const PROCESSES = 16
const REDIS = await service('redis', '16 processes on Redis')
const NATS = await service('nats', '16 processes on NATS')
const STORES = await everyStore('16 processes')
const namespace = (): string => `test-${process.pid}-${Date.now().toString(36)}`

describe('16 processes at one budget of 100 starts', () => {
  const children: ChildProcess[] = []
  afterEach(() => {
    for (const each of children.splice(0)) each.kill('SIGKILL')
  })

  /** The starts of each process. All begin together, once all are there. */
  async function startsOf(roleOf: (i: number) => 'calls' | 'jobs', backend: string): Promise<number[]> {
    const space = namespace()
    const fleet = Array.from({ length: PROCESSES }, (_, i) => {
      const args = [join(import.meta.dirname, 'hot-key-child.ts'), roleOf(i), backend, space]
      const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
      children.push(child)
      return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() }
    })
    await Promise.all(fleet.map(({ lines }) => lines.next()))
    for (const { child } of fleet) child.stdin.write('go\n')
    return Promise.all(fleet.map(async ({ lines }) => Number((await lines.next()).value)))
  }

  const stores = STORES.map(({ name, create }) => ({ name, backend: () => create() }))
  const servers = [
    { name: 'redis', backend: () => REDIS ?? '' },
    { name: 'nats', backend: () => NATS ?? '' },
  ].filter(({ backend }) => backend() !== '')

  it.each([...stores, ...servers])('on $name: calls of all start 100 times, and no more', async ({ backend }) => {
    const starts = await startsOf(() => 'calls', backend())
    expect(starts.reduce((sum, each) => sum + each, 0)).toBe(100)
  })

  it.each(servers)(
    'on $name: jobs of 8 stores and calls of 8 processes start 100 times at most, and nearly so',
    async ({ backend }) => {
      const starts = await startsOf((i) => (i % 2 === 0 ? 'jobs' : 'calls'), backend())
      const all = starts.reduce((sum, each) => sum + each, 0)
      expect(all).toBeLessThanOrEqual(100)
      // A payment that comes too late for its start goes back, and those that were refused before do not ask again.
      expect(all).toBeGreaterThan(85)
    },
  )
})
