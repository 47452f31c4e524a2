// A rolling upgrade: a process of an earlier build is at work when one of this build opens the same store.
// The earlier build is fixtures/schema-23/sluice.tar.gz: what it published, without its servers, commands, types and presets.
import { execFileSync, fork, type ChildProcess } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { silentLogger, Sluice } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const stores = await everyStore('rolling upgrades')

interface Told {
  readonly kind: 'ready' | 'refused' | 'started' | 'ended' | 'log' | 'enqueued' | 'all ended' | 'failed'
  readonly what?: string
  readonly n?: number | string
  readonly at?: number
  readonly code?: string | null
  readonly level?: string
  readonly message?: string
}

class Process {
  readonly told: Told[] = []
  readonly #child: ChildProcess

  constructor(doors: string, ending: 'js' | 'ts', store: string) {
    this.#child = fork(here('../fixtures/schema-23/member.mjs'), [doors, ending, store], {
      execArgv: ['--no-warnings'],
    })
    this.#child.on('message', (message) => void this.told.push(message as Told))
    onTestFinished(() => void this.#child.kill('SIGKILL'))
  }

  of(kind: Told['kind']): Told[] {
    return this.told.filter((each) => each.kind === kind)
  }

  async until(kind: Told['kind'], times = 1): Promise<void> {
    await vi.waitFor(
      () => {
        if (this.of(kind).length >= times) return
        throw new Error(`not yet ${kind}: ${JSON.stringify(this.told.filter(isTrouble))}`)
      },
      { timeout: 240_000, interval: 20 },
    )
  }

  send(message: object): void {
    this.#child.send(message)
  }
}

/** A claim may be slow: it waits while the other build upgrades the tables, and for a busy machine. One task fails once. */
const isTrouble = ({ kind, message = '' }: Told): boolean =>
  kind === 'failed' ||
  kind === 'refused' ||
  (kind === 'log' && !/^a claim takes|^a run failed, and its job is retried/.test(message))

/**
 * On a busy machine the earlier build may wait for a connection of its own pool until its leases end. Such runs are
 * lost, and their jobs run again. The build that finds a lost run logs it.
 */
const LOST = /^a run was lost with its worker or its lease/
const OF_SPENT_CONNECTIONS = /no answer came for 30000 ms|^the lease of this run ended/
const isLog = (pattern: RegExp, { kind, message = '' }: Told): boolean => kind === 'log' && pattern.test(message)

/** The folder of the doors of the earlier build, unpacked where its imports find their packages. */
function earlier(): string {
  const cache = here('../../node_modules/.cache')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'sluice-rolling-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  execFileSync('tar', ['-xzf', here('../fixtures/schema-23/sluice.tar.gz'), '-C', folder])
  return join(folder, 'package/dist/exports')
}

const PRESENT = here('../../src/exports')

describe.each(stores)('a rolling upgrade on $name', (kind) => {
  test('a process of an earlier build goes on beside this one: nothing is lost, doubled or over budget', async () => {
    const store = kind.vacant()
    const doors = earlier()
    const old = new Process(doors, 'js', store)
    await old.until('ready')
    old.send({ kind: 'enqueue', from: 0, to: 60 })
    await old.until('started', 40)
    const present = new Process(PRESENT, 'ts', store)
    await present.until('ready')
    // The earlier build knows nothing of events of the fleet, and is heard nevertheless.
    const listener = new Sluice({ store, tasks: [], logger: silentLogger })
    onTestFinished(() => listener.stop())
    const completed = new Set<string>()
    await listener.on('job.completed', ({ id }) => void completed.add(id), { fleet: true }).ready
    const before = old.of('started').length
    old.send({ kind: 'enqueue', from: 100, to: 160 })
    present.send({ kind: 'enqueue', from: 200, to: 260 })
    await old.until('enqueued', 2)
    await present.until('enqueued')
    old.send({ kind: 'wait' })
    present.send({ kind: 'wait' })
    await old.until('all ended')
    await present.until('all ended')
    const troubles = [old, present].map(({ told }) => told.filter((each) => isTrouble(each) && !isLog(LOST, each)))
    expect(troubles[0]?.filter((each) => !isLog(OF_SPENT_CONNECTIONS, each))).toEqual([])
    expect(troubles[1]).toEqual([])
    expect(old.of('started').length).toBeGreaterThan(before)
    expect(present.of('started').length).toBeGreaterThan(0)

    const starts = [...old.of('started'), ...present.of('started')]
    const names = starts.map(({ what, n }) => `${what} ${n}`)
    expect(new Set(names).size).toBe(3 * 6 * (4 * 10 + 3 + 2))
    // A job has a second run where its first was lost, and nowhere else.
    expect(names.length - new Set(names).size).toBeLessThanOrEqual(
      [...old.told, ...present.told].filter((each) => isLog(LOST, each)).length,
    )
    const reader = new Sluice({ store, tasks: [], logger: silentLogger })
    onTestFinished(() => reader.stop())
    const keyed = await reader.jobs.list({ task: 'keyed', limit: 1000 })
    expect(keyed).toHaveLength(18 * 11)
    const later = keyed.filter(({ input }) => (input as { n: number }).n >= 100).map(({ id }) => id)
    await expect.poll(() => later.filter((id) => !completed.has(id))).toEqual([])
    for (const tenant of [0, 1]) {
      const own = keyed.filter(({ input }) => Math.floor((input as { n: number }).n) % 2 === tenant)
      expect(most(own.map(({ startedAt }) => startedAt?.getTime() ?? 0))).toBeLessThanOrEqual(25)
    }

    // Started again, the earlier build is refused with a word about what to do.
    const again = new Process(doors, 'js', store)
    await again.until('refused')
    expect(again.of('refused')).toMatchObject([
      { code: 'store.version', message: expect.stringContaining('newer Sluice') as unknown },
    ])
  }, 300_000)
})

/** The most starts within a second. */
function most(at: readonly number[]): number {
  const sorted = at.toSorted((a, b) => a - b)
  return Math.max(...sorted.map((from, i) => sorted.slice(i).filter((ms) => ms < from + 1000).length))
}
