// Measures starts per second with every job in a lane of its own: 100,000 cold keys of 1/h with one job each, compared
// with no limit.
import { input, limit, type LimitUse, Sluice, task } from '../src/exports/index.ts'
import { measure, nowMs } from './measure.ts'

const KEYS = Number(process.env['KEYS'] ?? 100_000)

async function drain(path: string, limits: readonly LimitUse<{ key: string }>[]): Promise<number> {
  let left = KEYS
  let finish = (): void => undefined
  const finished = new Promise<void>((resolve) => (finish = resolve))
  const noop = task('noop', input<{ key: string }>(), { limits, run: () => void (--left === 0 && finish()) })
  const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [noop], queues: { default: { concurrency: 100 } } })
  for (let i = 0; i < KEYS; i += 1000)
    await noop.enqueueMany(Array.from({ length: 1000 }, (_, k) => ({ key: `k${i + k}` })))
  const startMs = nowMs()
  await sluice.start()
  await finished
  const seconds = (nowMs() - startMs) / 1000
  await sluice.stop()
  return KEYS / seconds
}

const hourly = limit('hourly', { rate: 1, per: '1h' })
await measure(`${KEYS.toLocaleString('en')} lanes with one job each`, async (path) => {
  const lanes = await drain(path, [hourly.by((job) => job.key)])
  const free = await drain(`${path}-free`, [])
  return { 'lane grants/s': lanes, 'jobs/s without limits': free, ratio: lanes / free }
})
