// Commits of other processes on a SQLite file are noticed by writes to its log, and by timers where these are silent.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import * as logWatch from '../../src/database/log-watch.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { RETENTION } from '../conformance/store/backend.ts'

vi.mock('../../src/database/log-watch.ts', { spy: true })

const ALONE_MS = 1000
const IN_COMPANY_MS = 50
const GAP_MS = 2

interface SetTimer {
  readonly run: () => void
  readonly delayMs: number
}

/** A clock that stands still, and whose timers fire when the test says so. */
class HandClock implements Clock {
  readonly bootId = systemClock.bootId
  readonly timers: SetTimer[] = []
  nowUs = systemClock.monotonicUs()
  now = (): number => systemClock.now()
  monotonicUs = (): number => this.nowUs

  setTimer(run: () => void, delayMs: number): { cancel: () => void } {
    const timer = { run, delayMs }
    this.timers.push(timer)
    return { cancel: () => void this.#take(timer) }
  }

  /** Fires the timer of this delay; there must be one. */
  fire(delayMs: number): void {
    const timer = this.timers.find((each) => each.delayMs === delayMs)
    expect(timer, `a timer of ${delayMs} ms among ${this.delays.join()}`).toBeDefined()
    if (timer && this.#take(timer)) timer.run()
  }

  get delays(): number[] {
    return this.timers.map(({ delayMs }) => delayMs)
  }

  #take(timer: SetTimer): boolean {
    const at = this.timers.indexOf(timer)
    if (at >= 0) this.timers.splice(at, 1)
    return at >= 0
  }
}

interface Harness {
  readonly path: string
  readonly store: SqliteStore
  readonly clock: HandClock
  /** Calls of the listener. */
  readonly calls: string[]
  /** Another connection that commits, as a process of any version does. */
  readonly commit: () => void
  readonly stop: () => void
}

async function open(options: { clock?: Clock; path?: string } = {}): Promise<Harness> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-wakeup-'))
  const clock = new HandClock()
  const path = options.path ?? join(folder, 'jobs.db')
  const store = new SqliteStore({ path, clock: options.clock ?? clock, durability: 'process', retention: RETENTION })
  await store.open()
  const other = new DatabaseSync(path)
  other.exec('CREATE TABLE IF NOT EXISTS foreign_commits (n)')
  const calls: string[] = []
  const stop = store.watch((change) => calls.push(change))
  onTestFinished(async () => {
    stop()
    other.close()
    await store.close()
    rmSync(folder, { recursive: true })
  })
  return { path, store, clock, calls, stop, commit: () => other.exec('INSERT INTO foreign_commits VALUES (1)') }
}

/** A watch whose announcements the test makes itself; what the system says is not heard. */
async function openSilent(): Promise<Harness & { announce: () => void }> {
  let announce = (): void => undefined
  vi.mocked(logWatch.watchLog).mockImplementationOnce((_, listener) => {
    announce = listener
    return () => (announce = () => undefined)
  })
  return { ...(await open()), announce: () => announce() }
}

/** Ends the looks that a write has caused. */
function settle(clock: HandClock): void {
  for (const delay of clock.delays.filter((each) => each < ALONE_MS && each !== IN_COMPANY_MS)) clock.fire(delay)
}

/** A process that commits a row at each line of its input. */
function foreignProcess(path: string): { readonly commit: () => Promise<void>; readonly kill: () => Promise<void> } {
  const code = `const { DatabaseSync } = require('node:sqlite'); const db = new DatabaseSync(process.argv[1]);
    process.stdin.on('data', () => { db.exec('INSERT INTO foreign_commits VALUES (2)'); process.stdout.write('done') })`
  const child = spawn(process.execPath, ['-e', code, path], { stdio: ['pipe', 'pipe', 'ignore'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  return {
    commit: async () => {
      child.stdin.write('\n')
      await once(child.stdout, 'data')
    },
    kill: async () => {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

test.runIf(process.platform === 'linux')(
  'a commit of another process is noticed without a timed look, those of killed ones and of their successors too',
  async () => {
    const { path, clock, calls } = await open()
    for (let round = 1; round <= 3; round++) {
      const other = foreignProcess(path)
      await other.commit()
      // The only timers fired are those between two looks that writes cause.
      await expect.poll(() => (settle(clock), calls)).toHaveLength(round)
      await other.kill()
    }
    expect(new Set(calls)).toEqual(new Set(['any']))
  },
)

test.runIf(process.platform === 'linux')(
  'beside another worker an idle process looks once a second, by one timer',
  async () => {
    const { path, store, clock, commit } = await open()
    const other = new SqliteStore({ path, clock, durability: 'process', retention: RETENTION })
    await other.open()
    onTestFinished(() => other.close())
    await store.join(['default'], 60_000_000)
    await other.join(['default'], 60_000_000)
    commit()
    await expect.poll(() => clock.delays).toContain(GAP_MS)
    await expect.poll(() => (settle(clock), clock.delays)).toHaveLength(1)
    clock.fire(IN_COMPANY_MS)
    for (let i = 0; i < 20; i++) {
      expect(clock.delays).toEqual([ALONE_MS])
      clock.fire(ALONE_MS)
    }
  },
)

test.runIf(process.platform === 'linux')('commits of this process call nobody', async () => {
  const { store, clock, calls } = await open()
  for (let i = 0; i < 3; i++) {
    await store.keepSetting('a', String(i))
    await expect.poll(() => clock.delays).toContain(GAP_MS)
    settle(clock)
  }
  expect(calls).toEqual([])
})

test('where nothing can be watched, timers look: every 50 ms in company, every second alone', async () => {
  vi.mocked(logWatch.watchLog).mockReturnValueOnce(null)
  const { clock, calls, commit } = await open()
  clock.fire(IN_COMPANY_MS)
  clock.fire(ALONE_MS)
  commit()
  expect(calls).toEqual([])
  clock.fire(ALONE_MS)
  expect(calls).toEqual(['any'])
  clock.fire(IN_COMPANY_MS)
  clock.nowUs += 61_000_000
  clock.fire(IN_COMPANY_MS)
  expect(clock.delays).toEqual([ALONE_MS])
})

test('a watch that misses a commit is trusted again when it announces one', async () => {
  const { clock, calls, commit, announce } = await openSilent()
  announce()
  settle(clock)
  clock.fire(IN_COMPANY_MS)
  commit()
  clock.fire(ALONE_MS)
  expect(calls).toHaveLength(1)
  // A write of this process's own proves nothing about those of others.
  announce()
  settle(clock)
  clock.fire(IN_COMPANY_MS)
  expect(clock.delays).toEqual([IN_COMPANY_MS])
  commit()
  announce()
  expect(calls).toHaveLength(2)
  settle(clock)
  clock.fire(IN_COMPANY_MS)
  expect(clock.delays).toEqual([ALONE_MS])
})

test('a write that is announced before its commit can be seen is looked for again', async () => {
  const { clock, calls, commit, announce } = await openSilent()
  announce()
  commit()
  expect(calls).toEqual([])
  clock.fire(GAP_MS)
  expect(calls).toHaveLength(1)
})

test('the next write shows a commit whose first one came too early, a few times in an interval', async () => {
  const { clock, calls, commit, announce } = await openSilent()
  announce()
  announce()
  commit()
  announce()
  expect(calls).toHaveLength(1)
  expect(clock.delays).toContain(GAP_MS)
  settle(clock)
  for (let i = 0; i < 5; i++) announce()
  commit()
  announce()
  expect(calls).toHaveLength(1)
  clock.fire(GAP_MS)
  expect(calls).toHaveLength(2)
})

test('writes close together are one call, and further apart while they give nothing to do', async () => {
  const { store, clock, calls, commit, announce } = await openSilent()
  const gaps = (): number[] => clock.delays.filter((delay) => delay !== ALONE_MS)
  announce()
  settle(clock)
  clock.fire(IN_COMPANY_MS)
  const found: number[] = []
  for (let i = 0; i < 8; i++) {
    for (let j = 0; j < 3; j++) {
      commit()
      announce()
    }
    const [gap] = gaps()
    found.push(gap ?? 0)
    clock.fire(gap ?? 0)
  }
  expect(found).toEqual([2, 4, 8, 16, 32, 50, 50, 50])
  expect(calls).toHaveLength(9)
  await store.keepSetting('a', 'what the call gave to do')
  commit()
  announce()
  clock.fire(50)
  expect(gaps()).toEqual([GAP_MS])
})

test('a listener that is stopped, and a store that is closed, hear nothing and hold no timer', async () => {
  const { store, clock, calls, commit, announce, stop } = await openSilent()
  const more: string[] = []
  const stopMore = store.watch((change) => more.push(change))
  stop()
  commit()
  announce()
  expect([calls, more]).toEqual([[], ['any']])
  stopMore()
  expect(clock.timers).toEqual([])
  store.watch((change) => more.push(change))
  await store.close()
  expect(clock.timers).toEqual([])
  announce()
  expect(more).toHaveLength(1)
})

test('a store in memory, and one on a manual clock, watch no file', async () => {
  vi.mocked(logWatch.watchLog).mockClear()
  const clock = Object.assign(new HandClock(), { attach: () => () => undefined })
  await open({ clock })
  await open({ path: ':memory:' })
  expect(logWatch.watchLog).not.toHaveBeenCalled()
})
