// Several real processes of plain code on one store, by its address.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { describe, expect, it } from 'vitest'
import { limit, Sluice, task } from '../../src/exports/index.ts'
import { expectDecidedWithin } from '../limiter/decided-starts.ts'
import { everyStore, type OnEnd } from '../stores.ts'

const CHILD = join(import.meta.dirname, '../limiter/redis-child.ts')
const NAMESPACE = 'fleet'

const STORES = await everyStore('processes of plain code')

function child(
  onEnd: OnEnd,
  ...args: string[]
): { readonly process: ChildProcess; readonly line: () => Promise<string> } {
  const started = spawn(process.execPath, [CHILD, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  onEnd(() => void started.kill('SIGKILL'))
  const lines = createInterface({ input: started.stdout })[Symbol.asyncIterator]()
  return { process: started, line: async () => String((await lines.next()).value) }
}

describe.each(STORES)('several processes of plain code on $name', (kind) => {
  it('start on one hot key, each of them, and never more often than its budget lets them', async ({
    onTestFinished,
  }) => {
    const url = kind.create()
    const fleet = Array.from({ length: 3 }, () => child(onTestFinished, 'load', url, NAMESPACE, '3000'))
    await Promise.all(fleet.map(({ line }) => line()))
    const lists = await Promise.all(fleet.map(async ({ line }) => JSON.parse(await line()) as number[]))
    expectDecidedWithin(lists.flat(), 100, 1)
    expect(lists.flat().length).toBeGreaterThan(100)
    expect(lists.every((list) => list.length > 0)).toBe(true)
  })
})

// They wait for leases, and so beside each other.
describe.concurrent.each(STORES)('processes of plain code on $name that are killed', (kind) => {
  const kill = async (holder: ReturnType<typeof child>): Promise<void> => {
    const gone = once(holder.process, 'exit')
    holder.process.kill('SIGKILL')
    await gone
  }
  it('give their permits to a job', async ({ expect, onTestFinished }) => {
    const url = kind.create(onTestFinished)
    const slots = limit(`${NAMESPACE}/slots`, { concurrency: 10 })
    const job = task('job', { limits: [slots], run: () => 'ran' })
    const sluice = new Sluice({ store: url, tasks: [job] })
    await sluice.start()
    const holder = child(onTestFinished, 'hold', url, NAMESPACE, '10')
    expect(await holder.line()).toBe('held')
    const waiting = await job.enqueue()
    await expect.poll(async () => (await sluice.limits.inspect(slots.name))[0]?.waiting).toBe(1)
    await kill(holder)
    expect(await waiting.result()).toBe('ran')
    await sluice.stop()
  })

  it('leave no place in a wait list behind', async ({ expect, onTestFinished }) => {
    const url = kind.create(onTestFinished)
    const slots = limit(`${NAMESPACE}/slots`, { concurrency: 10 })
    const job = task('job', { limits: [slots], run: () => 'ran' })
    const sluice = new Sluice({ store: url, tasks: [job] })
    await sluice.start()
    const held = await Promise.all(Array.from({ length: 10 }, () => sluice.limits.acquire([slots])))
    const waiter = child(onTestFinished, 'hold', url, NAMESPACE, '1')
    await expect.poll(async () => (await sluice.limits.inspect(slots.name))[0]?.waiting).toBe(1)
    await kill(waiter)
    const waiting = await job.enqueue()
    await held[0]?.release()
    if (kind.name === 'sqlite') expect(await waiting.result()).toBe('ran')
    await Promise.all(held.map((permit) => permit.release()))
    expect(await waiting.result()).toBe('ran')
    await expect.poll(async () => (await sluice.limits.inspect(slots.name))[0]?.waiting).toBe(0)
    await sluice.stop()
  })
})
