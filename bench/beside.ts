// A drain alone, beside viewers of the dashboard, and beside a bulk change: jobs per second, time of claims, processor time.
// JOBS (60,000) drained each time, VIEWERS (10), BULK (100,000) waiting jobs to cancel, STORE as in lists.ts, RUNS in turn (3).
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createMonitor, type MonitorClient } from './monitor-client.ts'
import { input, limit, silentLogger, Sluice, task } from '../src/exports/index.ts'
import { nowMs, quantile } from './measure.ts'

const JOBS = Number(process.env['JOBS'] ?? 60_000)
const VIEWERS = Number(process.env['VIEWERS'] ?? 10)
const BULK = Number(process.env['BULK'] ?? 100_000)
const RUNS = Number(process.env['RUNS'] ?? 3)
const BATCH = 1000
/** The answers that open pages ask for again at a change. */
const PAGES = ['/overview', '/limits', '/jobs', '/queues']

interface Figures {
  readonly rate: number
  readonly cpuUs: number
  /** From one end of a job to the next, 99 of 100. */
  readonly p99: number
  readonly longest: number
  readonly beside: string
}

const folder = mkdtempSync(join(process.env['BENCH_DIR'] ?? tmpdir(), 'sluice-beside-'))
const store = process.env['STORE'] ?? `sqlite:${join(folder, 'jobs.db')}`
const closed = limit('closed', { rate: 1, per: '1d', burst: 1 })
let ends: number[] = []
let finish = (): void => undefined
const noop = task('noop', input<number>(), {
  run: () => {
    ends.push(nowMs())
    if (ends.length === JOBS) finish()
  },
})
const idle = task('idle', input<number>(), { limits: [closed], queue: 'idle', run: () => undefined })
const queues = { default: { concurrency: 100 }, idle: {} }
const sluice = new Sluice({ store, tasks: [noop, idle], queues, logger: silentLogger })
const monitor = createMonitor(sluice)

async function fill(what: typeof noop | typeof idle, count: number): Promise<void> {
  for (let made = 0; made < count; made += BATCH)
    await what.enqueueMany(Array.from({ length: Math.min(BATCH, count - made) }, (_, i) => made + i))
}

async function drain(beside: (over: AbortSignal) => Promise<string>): Promise<Figures> {
  await sluice.queues.pause('default')
  await fill(noop, JOBS)
  ends = []
  const drained = new Promise<void>((resolve) => (finish = resolve))
  const over = new AbortController()
  const [before, spent] = [nowMs(), process.cpuUsage()]
  const others = beside(over.signal)
  await sluice.queues.resume('default')
  await drained
  const seconds = (nowMs() - before) / 1000
  const { user, system } = process.cpuUsage(spent)
  over.abort()
  const gaps = ends.slice(1).map((end, at) => end - (ends[at] ?? end))
  const told = await others
  return {
    rate: JOBS / seconds,
    cpuUs: (user + system) / JOBS,
    p99: quantile(gaps, 0.99),
    longest: gaps.reduce((most, gap) => Math.max(most, gap), 0),
    beside: told,
  }
}

/** Viewers hold a stream open each, and ask for a page of theirs each second. */
async function watched(over: AbortSignal): Promise<string> {
  let asked = 0
  const view = async (at: number): Promise<void> => {
    while (!over.aborted) {
      await monitor.get(PAGES[at % PAGES.length] as string)
      asked++
      await pause(1000, over)
    }
  }
  const streams = Array.from({ length: VIEWERS }, () => monitor.read(over))
  await Promise.all(Array.from({ length: VIEWERS }, (_, at) => view(at)))
  const bytes = (await Promise.all(streams)).reduce((sum, each) => sum + each, 0)
  return `${VIEWERS} viewers, ${asked} pages, ${(bytes / 1024).toFixed(0)} KiB of streams`
}

/** Cancels all waiting jobs of the other queue. */
async function cancelled(client: MonitorClient): Promise<string> {
  const before = nowMs()
  const started = await client.send('POST', '/bulk', { action: 'cancel', filter: { queue: 'idle' }, reason: 'bench' })
  const { id } = JSON.parse(started.body) as { id: string }
  for (;;) {
    const bulk = JSON.parse((await client.get(`/bulk/${id}`)).body) as { state: string; done: number }
    if (bulk.state !== 'running')
      return `bulk ${bulk.state}: ${bulk.done} jobs in ${((nowMs() - before) / 1000).toFixed(1)} s`
    await pause(200)
  }
}

function pause(ms: number, over?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    over?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}

await sluice.start()
console.log(`${store.replace(/:.*/, '')}, ${JOBS} jobs at concurrency 100`)
for (let run = 0; run < RUNS; run++)
  for (const [name, beside] of [
    ['alone', async () => ''],
    ['beside viewers', watched],
    ['beside a bulk cancel', () => cancelled(monitor)],
  ] as const) {
    if (name.endsWith('cancel')) await fill(idle, BULK)
    const { rate, cpuUs, p99, longest, beside: told } = await drain(beside)
    console.log(
      `${name.padEnd(21)} ${rate.toFixed(0).padStart(7)} jobs/s ${cpuUs.toFixed(1).padStart(7)} µs CPU a job  p99 between ends ${p99.toFixed(1)} ms, longest ${longest.toFixed(0)} ms  load ${loadavg()[0]?.toFixed(0)}  ${told}`,
    )
  }
monitor.close()
await sluice.stop({ within: 0 })
rmSync(folder, { recursive: true, force: true })
