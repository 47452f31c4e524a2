import { type ChildProcess, fork, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type AnyTask, silentLogger, Sluice } from '../../src/exports/index.ts'
import { skewedEnvironment } from '../skew.ts'

type Message =
  | { readonly kind: 'ready' }
  | { readonly kind: 'lease-lost'; readonly run: string }
  | { readonly kind: 'aborted'; readonly run: string }
  | { readonly kind: 'error'; readonly message: string }

type Condition = () => boolean | Promise<boolean>

/** A process of the fleet. */
export interface Member {
  readonly name: string
  /** By how much its wall clock is off. */
  readonly skewS: number
  readonly child: ChildProcess
  /** It has begun to claim. */
  ready: boolean
  /** It was stopped for a while: a server may have given its connections up meanwhile. */
  slept: boolean
}

/** The options in which members differ. */
export interface MemberOptions {
  readonly lease?: string
  /** By how much its wall clock is to be off, s; its steady clock is the machine's. */
  readonly skewS?: number
}

/**
 * Real processes on one store, a SQLite file of their own unless told otherwise; what is left of them is killed, and the file
 * removed, when the test has finished.
 */
export class Fleet {
  /** Accidents that no test asked for: processes that ended by themselves, errors that an engine logged. */
  readonly accidents: string[] = []
  /** Errors that engines logged while the store was allowed to be away. */
  readonly forgiven: string[] = []
  /** The store may be away: errors that engines log meanwhile are not accidents. */
  storeMayBeAway = false
  /** Runs whose settle was refused: worker, job and attempt. */
  readonly lost: string[] = []
  /** Runs whose signal was aborted while their handler was at work. */
  readonly aborted: string[] = []
  /** Names of members that were killed, in order. */
  readonly killed: string[] = []
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-crash-'))
  readonly #members = new Set<Member>()
  readonly #engines: Sluice[] = []
  readonly #url: string
  #born = 0

  constructor(store?: string) {
    this.#url = store ?? `sqlite:${this.#file}`
    onTestFinished(async () => {
      for (const member of this.#members) await this.kill(member)
      for (const engine of this.#engines) await engine.stop()
      rmSync(this.#folder, { recursive: true, force: true })
    })
  }

  get store(): string {
    return this.#url
  }

  get #file(): string {
    return join(this.#folder, 'jobs.db')
  }

  /** An engine of this process on the same file; not started. */
  engine(tasks: readonly AnyTask[]): Sluice {
    const engine = new Sluice({ store: this.store, tasks, logger: silentLogger })
    this.#engines.push(engine)
    return engine
  }

  /** A new worker, perhaps not yet at work. */
  worker(observer: string, { lease = '30s', skewS = 0 }: MemberOptions = {}): Member {
    const name = `w${++this.#born}`
    return this.#fork(name, 'worker.ts', JSON.stringify({ store: this.store, observer, name, lease }), 'ignore', skewS)
  }

  /** A new process that enqueues; its standard output has the ids. */
  enqueuer(): Member {
    return this.#fork(`e${++this.#born}`, 'enqueuer.ts', this.store, 'pipe')
  }

  /** A new worker for jobs of flows. */
  flowWorker(): Member {
    return this.#fork(`f${++this.#born}`, 'flow-worker.ts', this.store, 'ignore')
  }

  /** `kill -9`; answers once the system has it gone. */
  async kill(member: Member): Promise<void> {
    this.killed.push(member.name)
    await this.#end(member, () => member.child.kill('SIGKILL'))
  }

  /** Stops it where it stands, until it is woken. */
  sleep(member: Member): void {
    // eslint-disable-next-line no-param-reassign -- it is the record
    member.slept = true
    member.child.kill('SIGSTOP')
  }

  /** Lets it go on as if nothing had happened. */
  wake(member: Member): void {
    member.child.kill('SIGCONT')
  }

  /** Lets it finish what runs. */
  async stop(member: Member): Promise<void> {
    await this.#end(member, () => member.child.send('stop'))
  }

  /** The faults of the file, and the number of its jobs. */
  look(): { readonly faults: unknown; readonly jobs: number } {
    const database = new DatabaseSync(this.#file, { readOnly: true, timeout: 5000 })
    try {
      const rows = database.prepare('PRAGMA integrity_check').all()
      const jobs = Number(database.prepare('SELECT count(*) AS jobs FROM jobs').get()?.['jobs'])
      return { faults: rows.map((row) => row['integrity_check']).filter((word) => word !== 'ok'), jobs }
    } finally {
      database.close()
    }
  }

  #fork(name: string, file: string, argument: string, stdout: 'ignore' | 'pipe', skewS = 0): Member {
    const stdio: StdioOptions = ['ignore', stdout, 'inherit', 'ipc']
    const child = fork(join(import.meta.dirname, 'fixtures', file), [argument], {
      execArgv: [],
      stdio,
      env: skewedEnvironment(skewS),
    })
    const member: Member = { name, skewS, child, ready: false, slept: false }
    this.#members.add(member)
    child.on('message', (message: Message) => {
      if (message.kind === 'ready') member.ready = true
      else if (message.kind === 'lease-lost') this.lost.push(`${name} ${message.run}`)
      else if (message.kind === 'aborted') this.aborted.push(`${name} ${message.run}`)
      else {
        const forgiven = this.storeMayBeAway || (member.slept && CUT_OFF_BY_SLEEP.test(message.message))
        ;(forgiven ? this.forgiven : this.accidents).push(`${name}: ${message.message}`)
      }
    })
    child.on('exit', (code, signal) => {
      if (this.#members.delete(member)) this.accidents.push(`${name} ended by itself: ${String(signal ?? code)}`)
    })
    return member
  }

  async #end(member: Member, by: () => void): Promise<void> {
    if (!this.#members.delete(member)) return
    const closed = once(member.child, 'close')
    by()
    await closed
  }
}

/** Connections that a stopped process had, and those it was about to open: their time was up before it was woken. */
const CUT_OFF_BY_SLEEP = /The connection to \w+ was lost|No connection to .*: timeout expired/

/** Only what hangs is given up: a process starts in half a second alone, and ten times slower beside eight busy ones. */
const PATIENCE_MS = 60_000

/** Waits for what must come; fails when it has not come in time. */
export async function until(what: string, condition: Condition, withinMs: number = PATIENCE_MS): Promise<void> {
  if (!(await comesTrue(withinMs, condition))) throw new Error(`waited ${withinMs} ms in vain: ${what}`)
}

/** Waits for what may come; answers whether it has. */
export async function comesTrue(withinMs: number, condition: Condition): Promise<boolean> {
  const endMs = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > endMs) return false
    await pause(5)
  }
  return true
}

/** Lets real time pass. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
