// Real worker processes on one store, and the file in which they note every start.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { type Policy, silentLogger, Sluice } from '../../src/exports/index.ts'
import { skewedEnvironment } from '../skew.ts'
import type { StoreKind } from '../stores.ts'
import { expectOncePerAttempt, expectWithinBudget, type Start } from './harness.ts'

/** How late a busy machine may let a handler note its start; the decisions themselves are checked exactly. */
const NOTED_LATE_US = 2_000_000
/** Stored times are read as whole milliseconds. */
const ROUNDED_US = 1000
const WORKER = join(import.meta.dirname, 'fixtures', 'worker-process.ts')

/** One call of the workers' task. */
export interface Call {
  readonly key: string
  readonly name: string
  readonly queue?: string
  /** ms */
  readonly delay?: number
}

/** A start with the instant at which it was decided, by the store's clock. */
export interface NotedStart extends Start {
  readonly decidedUs: number
  /** The wall clock of its process when it was noted, ms. */
  readonly wallMs: number
}

/** Worker processes that share one store and one limit. */
export class ProcessFleet {
  readonly #directory = mkdtempSync(join(tmpdir(), 'sluice-processes-'))
  readonly #children = new Set<ChildProcess>()
  readonly #readers: Sluice[] = []
  readonly #policy: Policy
  readonly #queues: Record<string, { concurrency: number }>

  readonly #store: string

  constructor(
    kind: Pick<StoreKind, 'vacant'>,
    policy: Policy,
    queues: Record<string, { concurrency: number }> = { default: { concurrency: 20 } },
  ) {
    this.#store = kind.vacant()
    this.#policy = policy
    this.#queues = queues
    onTestFinished(async () => {
      for (const child of this.#children) await this.kill(child)
      for (const reader of this.#readers) await reader.stop()
      rmSync(this.#directory, { recursive: true, force: true })
    })
  }

  get #observer(): string {
    return join(this.#directory, 'observer.jsonl')
  }

  /** The store's URL. */
  get store(): string {
    return this.#store
  }

  /**
   * A worker process; answers once it is at work.
   * @param options.skewS by how much its wall clock is to be off, s.
   */
  async start({ tickMs, skewS = 0 }: { tickMs?: number; skewS?: number } = {}): Promise<ChildProcess> {
    const settings = {
      store: this.#store,
      observer: this.#observer,
      policy: this.#policy,
      queues: this.#queues,
      tickMs,
    }
    const child = fork(WORKER, [JSON.stringify(settings)], {
      execArgv: [],
      env: skewedEnvironment(skewS),
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.#children.add(child)
    const gone = new AbortController()
    child.once('exit', () => {
      this.#children.delete(child)
      gone.abort(new Error('a worker process ended by itself'))
    })
    const [message] = (await once(child, 'message', { signal: gone.signal })) as [unknown]
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
  starts(): NotedStart[] {
    // A killed process may have left half a line.
    const starts = linesOf(this.#observer).filter((line) => line.endsWith('}'))
    return starts.map((line) => JSON.parse(line) as NotedStart).sort((a, b) => a.atUs - b.atUs)
  }

  /** The errors that engines logged. */
  get errors(): string[] {
    return linesOf(`${this.#observer}.errors`)
  }

  /** An engine of this process on the same store, which runs nothing. */
  reader(): Sluice {
    const reader = new Sluice({ store: this.#store, tasks: [], logger: silentLogger })
    this.#readers.push(reader)
    return reader
  }

  /** Waits for so many starts; fails when nothing has come of them for so long that something hangs. */
  async started(count: number, withinS = 60): Promise<NotedStart[]> {
    const untilUs = nowUs() + withinS * 1e6
    for (;;) {
      const starts = this.starts()
      if (starts.length >= count) return starts
      expect(nowUs(), `${starts.length} of ${count} starts are noted, and time is up`).toBeLessThan(untilUs)
      await pause(20)
    }
  }

  /** Kills everything, then checks budgets, double runs and losses against the observer and the store. */
  async finish(count: number, mayRunTwice = 0): Promise<void> {
    const reader = this.reader()
    const completed = async (): Promise<number> =>
      (await reader.jobs.list({ limit: 1000 })).filter((job) => job.state === 'completed').length
    for (let tries = 0; tries < 1000 && (await completed()) < count; tries++) await pause(20)
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
    expect(this.errors).toEqual([])
  }

  /**
   * The instant at which the last run of each job was decided, by key: unlike a handler's note, it does not depend on
   * how busy the machine is.
   */
  async #decided(reader: Sluice): Promise<Map<string, { atUs: number; weight: number }[]>> {
    const decided = new Map<string, { atUs: number; weight: number }[]>()
    for (const { input, startedAt } of await reader.jobs.list({ limit: 1000 })) {
      const { key } = input as Call
      decided.set(key, [...(decided.get(key) ?? []), { atUs: (startedAt?.getTime() ?? 0) * 1000, weight: 1 }])
    }
    return decided
  }
}

function linesOf(path: string): string[] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
  } catch {
    // Nothing was noted yet.
    return []
  }
}

/** The machine's steady clock, µs. */
export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

/** Lets real time pass. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))
}

/** Calls of one key, named with their number. */
export function calls(count: number, key: string, first = 1): Call[] {
  return Array.from({ length: count }, (_, i) => ({ key, name: `${key}${first + i}` }))
}
