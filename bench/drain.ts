// Measures the no-op jobs per second of one process at concurrency 100 with full durability: without limits, and with a
// keyed limit that never refuses.
import { input, limit, type LimitUse, Sluice, task } from '../src/exports/index.ts'
import { measure, nowMs } from './measure.ts'

const JOBS = Number(process.env['JOBS'] ?? 100_000)
async function drain(path: string, keys: number, limits: readonly LimitUse<{ key: string }>[]): Promise<number> {
  let left = JOBS
  let finish = (): void => undefined
  const finished = new Promise<void>((resolve) => (finish = resolve))
  const noop = task('noop', input<{ key: string }>(), { limits, run: () => void (--left === 0 && finish()) })
  const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [noop], queues: { default: { concurrency: 100 } } })
  for (let i = 0; i < JOBS; i += 1000)
    await noop.enqueueMany(Array.from({ length: 1000 }, (_, k) => ({ key: `k${(i + k) % keys}` })))
  const startMs = nowMs()
  await sluice.start()
  await finished
  const seconds = (nowMs() - startMs) / 1000
  await sluice.stop()
  return JOBS / seconds
}

const never = limit('never-bites', { rate: 1_000_000_000, per: '1s' })
await measure(`Drain ${JOBS.toLocaleString('en')} no-op jobs at concurrency 100`, async (path) => {
  const numbers: Record<string, number> = { 'jobs/s without limits': await drain(path, 1, []) }
  for (const keys of [1, 10, 100]) {
    const perSecond = await drain(`${path}-${keys}`, keys, [never.by((job) => job.key)])
    numbers[`jobs/s, a limit of ${keys} keys that never bites`] = perSecond
    numbers[`of that without limits, ${keys} keys`] = perSecond / (numbers['jobs/s without limits'] ?? 1)
  }
  return numbers
})
