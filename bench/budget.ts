// Of 1,000 keys at 1/s each with a backlog, how much of the budget is used?
import { setTimeout as sleep } from 'node:timers/promises'
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { measure, quantile } from './measure.ts'

const KEYS = 1000
const SECONDS = Number(process.env['SECONDS'] ?? 10)

await measure(`${KEYS} keys at 1/s each, with backlog, over ${SECONDS} s`, async (path) => {
  const starts = new Map<string, number[]>()
  let counting = false
  const perKey = limit('per-key', { rate: 1, per: '1s' })
  const call = task('call', input<{ key: string }>(), {
    limits: [perKey.by((job) => job.key)],
    run: ({ key }) => {
      if (!counting) return
      const list = starts.get(key) ?? []
      starts.set(key, list)
      list.push(Number(process.hrtime.bigint() / 1000n))
    },
  })
  const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [call], queues: { default: { concurrency: 100 } } })
  for (let round = 0; round < SECONDS + 6; round++)
    await call.enqueueMany(Array.from({ length: KEYS }, (_, i) => ({ key: `k${i}` })))
  await sluice.start()
  await sleep(2000)
  counting = true
  await sleep(SECONDS * 1000)
  counting = false
  await sluice.stop()
  const total = [...starts.values()].reduce((sum, list) => sum + list.length, 0)
  const gaps = [...starts.values()].flatMap((list) => list.slice(1).map((at, i) => (at - (list[i] ?? 0)) / 1000))
  return {
    'budget used %': (100 * total) / (KEYS * SECONDS),
    'gap p50 ms': quantile(gaps, 0.5),
    'gap p99 ms': quantile(gaps, 0.99),
  }
})
