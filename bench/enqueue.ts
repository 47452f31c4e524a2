// Measures durable enqueues: awaited one by one, with 100 in flight, and in bulk.
import { input, Sluice, task } from '../src/exports/index.ts'
import { measure, nowMs } from './measure.ts'

const ALONE = Number(process.env['ALONE'] ?? 5000)
const JOBS = Number(process.env['JOBS'] ?? 100_000)

await measure('Enqueue, durable', async (path) => {
  const noop = task('noop', input<{ n: number }>(), { run: () => undefined })
  const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [noop] })
  await noop.enqueue({ n: 0 })
  let startMs = nowMs()
  for (let n = 0; n < ALONE; n++) await noop.enqueue({ n })
  const alone = ALONE / ((nowMs() - startMs) / 1000)
  startMs = nowMs()
  let next = 0
  const producer = async (): Promise<void> => {
    while (next < JOBS) await noop.enqueue({ n: next++ })
  }
  await Promise.all(Array.from({ length: 100 }, producer))
  const inFlight = JOBS / ((nowMs() - startMs) / 1000)
  startMs = nowMs()
  for (let n = 0; n < JOBS; n += 1000) await noop.enqueueMany(Array.from({ length: 1000 }, (_, i) => ({ n: n + i })))
  const bulk = JOBS / ((nowMs() - startMs) / 1000)
  await sluice.stop()
  return { 'jobs/s, one by one': alone, 'jobs/s, 100 in flight': inFlight, 'jobs/s, 1,000 at once': bulk }
})
