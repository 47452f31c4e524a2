import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Policy, silentLogger, Sluice } from '../../src/exports/index.ts'
import { every, expectOncePerAttempt, expectWithinBudget, rate, type Start, times } from './harness.ts'

// Real processes on the real clock, so a start may be late by what a busy machine takes. It may never be early.
const LATE_S = 0.25
/** How late a busy machine may let a handler note its start; the decisions themselves are checked exactly. */
const NOTED_LATE_US = 500_000
/** Stored times are read as whole milliseconds. */
const ROUNDED_US = 1000
const WORKER = join(import.meta.dirname, 'fixtures', 'worker-process.ts')

interface Call {
  readonly key: string
  readonly name: string
  readonly queue?: string
}

class Fleet {
  readonly #directory = mkdtempSync(join(tmpdir(), 'sluice-processes-'))
  readonly #children = new Set<ChildProcess>()
  readonly #policy: Policy
  readonly #queues: Record<string, { concurrency: number }>

  constructor(policy: Policy, queues: Record<string, { concurrency: number }> = { default: { concurrency: 20 } }) {
    this.#policy = policy
    this.#queues = queues
    onTestFinished(async () => {
      for (const child of this.#children) await this.kill(child)
      rmSync(this.#directory, { recursive: true, force: true })
    })
  }

  get #store(): string {
    return `sqlite:${join(this.#directory, 'jobs.db')}`
  }

  get #witness(): string {
    return join(this.#directory, 'witness.jsonl')
  }

  /** A worker process; answers once it is at work. */
  async start(tickMs?: number): Promise<ChildProcess> {
    const settings = { store: this.#store, witness: this.#witness, policy: this.#policy, queues: this.#queues, tickMs }
    const child = fork(WORKER, [JSON.stringify(settings)], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.#children.add(child)
    const [message] = (await once(child, 'message')) as [unknown]
    expect(message).toBe('ready')
    return child
  }

  /** Has a worker store calls; answers when it began to, µs. */
  async enqueue(child: ChildProcess, calls: readonly Call[]): Promise<number> {
    const answered = once(child, 'message')
    child.send(calls)
    const [{ enqueuedFromUs }] = (await answered) as [{ enqueuedFromUs: number }]
    return enqueuedFromUs
  }

  /** `kill -9`. */
  async kill(child: ChildProcess): Promise<void> {
    if (!this.#children.delete(child)) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  /** Starts noted so far, earliest first. */
  starts(): Start[] {
    let text = ''
    try {
      text = readFileSync(this.#witness, 'utf8')
    } catch {
      // No start was noted yet.
    }
    const starts = text.split('\n').filter((line) => line !== '')
    return starts.map((line) => JSON.parse(line) as Start).sort((a, b) => a.atUs - b.atUs)
  }

  /** Waits for so many starts; fails when the last of them is overdue. */
  async started(count: number, withinS: number): Promise<Start[]> {
    const untilUs = nowUs() + withinS * 1e6
    for (;;) {
      const starts = this.starts()
      if (starts.length >= count) return starts
      expect(nowUs(), `${starts.length} of ${count} starts are noted, and time is up`).toBeLessThan(untilUs)
      await pause(20)
    }
  }

  /** Kills everything, then checks budgets, double runs and losses against the witness and the store. */
  async finish(count: number, mayRunTwice = 0): Promise<void> {
    const reader = new Sluice({ store: this.#store, tasks: [], logger: silentLogger })
    const completed = async (): Promise<number> =>
      (await reader.jobs.list({ limit: 1000 })).filter((job) => job.state === 'completed').length
    for (let tries = 0; tries < 100 && (await completed()) < count; tries++) await pause(20)
    for (const child of this.#children) await this.kill(child)
    const starts = this.starts()
    for (const key of new Set(starts.map((start) => start.key)))
      expectWithinBudget(
        this.#policy,
        starts.filter((start) => start.key === key),
        key,
        NOTED_LATE_US,
      )
    for (const [key, decided] of await this.#decided(reader)) expectWithinBudget(this.#policy, decided, key, ROUNDED_US)
    expectOncePerAttempt(starts)
    expect(new Set(starts.map((start) => start.id)).size).toBe(count)
    expect(starts.length - count, 'jobs that ran again').toBeLessThanOrEqual(mayRunTwice)
    expect(await completed()).toBe(count)
    await reader.stop()
  }

  /** When the last run of each job was decided, by key: unlike what a handler notes, it does not hang on how busy the machine is. */
  async #decided(reader: Sluice): Promise<Map<string, { atUs: number; weight: number }[]>> {
    const decided = new Map<string, { atUs: number; weight: number }[]>()
    for (const { input, startedAt } of await reader.jobs.list({ limit: 1000 })) {
      const { key } = input as Call
      decided.set(key, [...(decided.get(key) ?? []), { atUs: (startedAt?.getTime() ?? 0) * 1000, weight: 1 }])
    }
    return decided
  }
}

function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))
}

function calls(count: number, key: string, first = 1): Call[] {
  return Array.from({ length: count }, (_, i) => ({ key, name: `${key}${first + i}` }))
}

/** By position: never early, and not late where a worker was there to start them. */
function expectOnTime(starts: readonly Start[], fromUs: number, expected: readonly number[], deafUntilS = 0): void {
  for (const [i, seconds] of expected.entries()) {
    const at = ((starts[i]?.atUs ?? Infinity) - fromUs) / 1e6
    expect(at, `start ${i + 1}`).toBeGreaterThanOrEqual(seconds - 0.005)
    expect(at, `start ${i + 1}`).toBeLessThanOrEqual(Math.max(seconds, deafUntilS) + LATE_S)
  }
}

describe.concurrent('real processes', () => {
  test('start a burst at once, then one job per interval', async () => {
    const fleet = new Fleet(rate(15, 3))
    const fromUs = await fleet.enqueue(await fleet.start(), calls(20, 'A'))
    expectOnTime(await fleet.started(20, 5), fromUs, [...times(15, 0), ...every(0.2, 0.2, 1)])
    await fleet.finish(20)
  })

  test('let one key’s backlog delay no other key', async () => {
    const fleet = new Fleet(rate(1, 0.9), { default: { concurrency: 3 } })
    const fromUs = await fleet.enqueue(await fleet.start(), [...calls(5, 'A'), ...calls(1, 'B')])
    const starts = await fleet.started(6, 8)
    expectOnTime(
      starts.filter(({ key }) => key === 'B'),
      fromUs,
      [0],
    )
    expectOnTime(
      starts.filter(({ key }) => key === 'A'),
      fromUs,
      [0, 0.9, 1.8, 2.7, 3.6],
    )
    await fleet.finish(6)
  })

  test('that are killed and started again spend no second burst, and lose nothing', async () => {
    const fleet = new Fleet(rate(15, 3))
    const first = await fleet.start()
    const fromUs = await fleet.enqueue(first, calls(60, 'A'))
    await pause(1500 - (nowUs() - fromUs) / 1000)
    await fleet.kill(first)
    await pause(50)
    await fleet.start()
    const readyS = (nowUs() - fromUs) / 1e6
    const starts = await fleet.started(60, 15)
    expectOnTime(starts, fromUs, [...times(15, 0), ...every(0.2, 0.2, 9)], readyS)
    await fleet.finish(60, 1)
  })

  test('share one budget over two queues', async () => {
    const fleet = new Fleet(rate(2, 0.035), { default: { concurrency: 5 }, exports: { concurrency: 5 } })
    const both = calls(8, 'A').map((call, i) => ({ ...call, queue: i % 2 === 0 ? 'default' : 'exports' }))
    const fromUs = await fleet.enqueue(await fleet.start(), both)
    expectOnTime(await fleet.started(8, 5), fromUs, [0, 0, ...every(0.0175, 0.0175, 0.105)])
    await fleet.finish(8)
  })

  test('on one file share one budget, and one that joins runs nothing again', async () => {
    const fleet = new Fleet(rate(15, 3))
    const first = await fleet.start()
    const second = await fleet.start()
    const [fromUs] = await Promise.all([
      fleet.enqueue(first, calls(30, 'A')),
      fleet.enqueue(second, calls(30, 'A', 31)),
    ])
    await fleet.started(20, 5)
    await fleet.start()
    const starts = await fleet.started(60, 15)
    expectOnTime(starts, fromUs, [...times(15, 0), ...every(0.2, 0.2, 9)])
    await fleet.finish(60)
  })
})

describe('a series that every process registers', () => {
  test('fires each occurrence once and on time, in company and after a kill', { timeout: 20_000 }, async () => {
    const fleet = new Fleet(rate(1000, 1))
    const tickMs = 200
    const [first] = [await fleet.start(tickMs), await fleet.start(tickMs)]
    await fleet.started(10, 5)
    await fleet.kill(first)
    const starts = await fleet.started(20, 5)
    const dues = starts.map((start) => Date.parse(start.name))
    expect(dues).toEqual(dues.map((_, i) => (dues[0] ?? 0) + i * tickMs))
    // The two clocks of the witness and of the due times agree but for the moment at which each was read.
    const lateMs = starts.map((start, i) => start.atUs / 1000 - (dues[i] ?? 0))
    expect(Math.max(...lateMs) - Math.min(...lateMs)).toBeLessThanOrEqual(LATE_S * 1000)
  })
})
