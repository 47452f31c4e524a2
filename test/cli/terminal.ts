import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const { SLUICE_STORE: _, ...ENV } = process.env

/** How a call of the command line ended. */
export interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs `sluice` as its users do, to its end. */
export function sluice(
  args: readonly string[],
  { main = MAIN, ...options }: { cwd?: string; env?: NodeJS.ProcessEnv; main?: string } = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const env = { ...ENV, ...options.env }
    execFile(process.execPath, [main, ...args], { ...options, env }, (error, out, err) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1, out, err })
    })
  })
}

/** Starts `sluice` and leaves it running. */
export function start(...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [MAIN, ...args], { env: ENV, stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

/** A folder that goes with the test. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'sluice-cli-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/**
 * A store in which jobs wait: `crm` gives each key one start an hour, of `llm` every job needs 30 of 100 units in any hour.
 * `acme` has 3 jobs waiting, `birch` 1, `llm` 2. Its engine has ended.
 */
export async function storeWithWaiting(path: string = folder()): Promise<{ url: string; acme: string[] }> {
  const crm = limit('crm', { rate: 1, per: '1h' })
  const llm = limit('llm', { window: 'sliding', max: 100, per: '1h' })
  const run = (): void => undefined
  const sync = task('tenant.sync', input<string>(), { limits: [crm.by((key) => key)], run })
  const ask = task('llm.ask', input<string>(), { limits: [llm.weight(30)], queue: 'models', run })
  const url = `sqlite:${join(path, 'jobs.db')}`
  const queues = { default: {}, models: {} }
  const engine = new Sluice({ store: url, tasks: [sync, ask], queues, durability: 'process', logger: silentLogger })
  const acme = await sync.enqueueMany(['acme', 'acme', 'acme', 'acme'])
  const [birch] = await sync.enqueueMany(['birch', 'birch'])
  const asked = await ask.enqueueMany(['1', '2', '3', '4', '5'])
  await engine.start()
  // One of each key, and three that fit in the window.
  for (const job of [acme[0], birch, ...asked.slice(0, 3)]) await job?.result()
  await engine.stop()
  return { url, acme: acme.slice(1).map((job) => job.id) }
}

/** A store with a daily schedule, and one that has had its only run. Its engine has ended. */
export async function storeWithSchedules(path: string = folder()): Promise<string> {
  const report = task('report', { run: () => undefined })
  const url = `sqlite:${join(path, 'jobs.db')}`
  const engine = new Sluice({ store: url, tasks: [report], durability: 'process', logger: silentLogger })
  await engine.schedule(report, undefined, { cron: '0 9 * * *', timezone: 'Europe/Paris', name: 'daily' })
  const fired = new Promise<string>((resolve) => engine.on('schedule.fired', ({ id }) => resolve(id)))
  await engine.schedule(report, undefined, { every: '1h', immediately: true, maxRuns: 1, name: 'once' })
  await engine.start()
  await fired
  await engine.stop()
  return url
}

/** A store without anything in it. */
export async function emptyStore(url: string): Promise<void> {
  const engine = new Sluice({ store: url, tasks: [], logger: silentLogger })
  await engine.jobs.list()
  await engine.stop()
}
