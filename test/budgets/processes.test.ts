// Several real processes of plain code on one store, by its address.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, it } from 'vitest'
import { limit, Sluice, task } from '../../src/exports/index.ts'
import { expectDecidedWithin } from '../limiter/decided-starts.ts'
import { everyStore } from '../stores.ts'

const CHILD = join(import.meta.dirname, '../limiter/redis-child.ts')
const NAMESPACE = 'fleet'

describe.each(await everyStore('processes of plain code'))('several processes of plain code on $name', (kind) => {
  const children: ChildProcess[] = []
  const child = (...args: string[]): { process: ChildProcess; line: () => Promise<string> } => {
    const started = spawn(process.execPath, [CHILD, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(started)
    const lines = createInterface({ input: started.stdout })[Symbol.asyncIterator]()
    return { process: started, line: async () => String((await lines.next()).value) }
  }
  const killed = async (holder: ReturnType<typeof child>): Promise<void> => {
    const gone = once(holder.process, 'exit')
    holder.process.kill('SIGKILL')
    await gone
  }
  afterEach(() => {
    for (const each of children.splice(0)) each.kill('SIGKILL')
  })

  it('start on one hot key, each of them, and never more often than its budget lets them', async () => {
    const url = kind.create()
    const fleet = Array.from({ length: 3 }, () => child('load', url, NAMESPACE, '3000'))
    await Promise.all(fleet.map(({ line }) => line()))
    const lists = await Promise.all(fleet.map(async ({ line }) => JSON.parse(await line()) as number[]))
    expectDecidedWithin(lists.flat(), 100, 1)
    expect(lists.flat().length).toBeGreaterThan(100)
    expect(lists.every((list) => list.length > 0)).toBe(true)
  })

  it('give a job the permit of one that was killed', async () => {
    const url = kind.create()
    const slots = limit(`${NAMESPACE}/slots`, { concurrency: 10 })
    const job = task('job', { limits: [slots], run: () => 'ran' })
    const sluice = new Sluice({ store: url, tasks: [job] })
    await sluice.start()
    const holder = child('hold', url, NAMESPACE, '10')
    expect(await holder.line()).toBe('held')
    const waiting = await job.enqueue()
    await expect.poll(async () => (await sluice.limits.inspect(slots.name))[0]?.waiting).toBe(1)
    await killed(holder)
    expect(await waiting.result()).toBe('ran')
    await sluice.stop()
  })

  it('leave no place in a wait list behind when they are killed', async () => {
    const url = kind.create()
    const slots = limit(`${NAMESPACE}/slots`, { concurrency: 10 })
    const job = task('job', { limits: [slots], run: () => 'ran' })
    const sluice = new Sluice({ store: url, tasks: [job] })
    await sluice.start()
    const held = await Promise.all(Array.from({ length: 10 }, () => sluice.limits.acquire([slots])))
    const waiter = child('hold', url, NAMESPACE, '1')
    await expect.poll(async () => (await sluice.limits.inspect(slots.name))[0]?.waiting).toBe(1)
    await killed(waiter)
    const waiting = await job.enqueue()
    await held[0]?.release()
    if (kind.name === 'sqlite') expect(await waiting.result()).toBe('ran')
    await Promise.all(held.map((permit) => permit.release()))
    expect(await waiting.result()).toBe('ran')
    await expect.poll(async () => (await sluice.limits.inspect(slots.name))[0]?.waiting).toBe(0)
    await sluice.stop()
  })
})
