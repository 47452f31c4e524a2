// Measures the time from enqueue to the handler's start, at 100 jobs/s, with a keyed limit that never refuses.
import { setTimeout as sleep } from 'node:timers/promises'
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { measure, nowMs, quantile } from './measure.ts'

const JOBS = Number(process.env['JOBS'] ?? 1000)

await measure(`Pick-up latency of ${JOBS} jobs at 100 jobs/s`, async (path) => {
  const waits: number[] = []
  const never = limit('never-bites', { rate: 1_000_000, per: '1s' })
  const stamped = task('stamped', input<{ atMs: number }>(), {
    limits: [never.by((job) => `k${Math.floor(job.atMs) % 10}`)],
    run: ({ atMs }) => void waits.push(nowMs() - atMs),
  })
  const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [stamped] })
  await sluice.start()
  const startMs = nowMs()
  for (let i = 0; i < JOBS + 20; i++) {
    await sleep(Math.max(0, startMs + i * 10 - nowMs()))
    void stamped.enqueue({ atMs: nowMs() })
  }
  await sluice.stop()
  const steady = waits.slice(20)
  return { 'p50 ms': quantile(steady, 0.5), 'p99 ms': quantile(steady, 0.99), 'worst ms': Math.max(...steady) }
})
