// Measures the time from enqueue to the handler's start, at 100 jobs/s, with a keyed limit that never refuses: in the
// process that enqueues, and in another one on the same file. Tells what the two processes then take while idle.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { measure, type Numbers, nowMs, quantile } from './measure.ts'

const JOBS = Number(process.env['JOBS'] ?? 1000)
const WARM_UP = 20
const IDLE_S = 5

const never = limit('never-bites', { rate: 1_000_000, per: '1s' })
const waits: number[] = []
const stamped = task('stamped', input<{ atMs: number }>(), {
  limits: [never.by((job) => `k${Math.floor(job.atMs) % 10}`)],
  run: ({ atMs }) => void waits.push(nowMs() - atMs),
})

async function produce(): Promise<void> {
  const startMs = nowMs()
  for (let i = 0; i < JOBS + WARM_UP; i++) {
    await sleep(Math.max(0, startMs + i * 10 - nowMs()))
    void stamped.enqueue({ atMs: nowMs() })
  }
}

function pickUp(): Numbers {
  const steady = waits.splice(0).slice(WARM_UP)
  return { 'p50 ms': quantile(steady, 0.5), 'p99 ms': quantile(steady, 0.99), 'worst ms': Math.max(...steady) }
}

async function idlePercent(): Promise<number> {
  const before = process.cpuUsage()
  await sleep(IDLE_S * 1000)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / (IDLE_S * 1e4)
}

async function sameProcess(path: string): Promise<Numbers> {
  const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [stamped] })
  await sluice.start()
  await produce()
  await sluice.stop()
  return pickUp()
}

async function otherProcess(path: string): Promise<Numbers> {
  const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [stamped] })
  await sluice.start()
  const producer = fork(fileURLToPath(import.meta.url), [path], { execArgv: process.execArgv })
  await once(producer, 'message')
  while (waits.length < JOBS + WARM_UP) await sleep(100)
  const found = pickUp()
  const company = await idlePercent()
  producer.send('end')
  await once(producer, 'exit')
  await sluice.stop()
  return { ...found, 'idle in company, % of a core': company }
}

const [path] = process.argv.slice(2)
if (path === undefined) {
  await measure(`Pick-up latency of ${JOBS} jobs at 100 jobs/s`, sameProcess)
  await measure(`The same in another process than the one that enqueues`, otherProcess)
} else {
  // The producer is at work too, on a queue of its own.
  const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [stamped], queues: { producer: 1 } })
  await sluice.start()
  await produce()
  process.send?.('produced')
  await once(process, 'message')
  await sluice.stop()
  process.disconnect()
}
