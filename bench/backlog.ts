// With 1,000,000 jobs waiting in 100,000 closed lanes: what does a claim cost, and how soon does a job of a fresh key start, against an empty store?
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { systemClock } from '../src/base/clock.ts'
import { createStore } from '../src/store/open.ts'
import { measure, nowMs, quantile } from './measure.ts'

const LANES = Number(process.env['LANES'] ?? 100_000)
const DEPTH = Number(process.env['DEPTH'] ?? 10)
const PROBES = 300

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** The memory of the process after a collection. Waiting jobs live in the store, not here. */
function heapAfterCollection(): number {
  collect()
  return process.memoryUsage().heapUsed / 2 ** 20
}

const yearly = limit('yearly', { rate: 1, per: 'P365D' })

async function probe(path: string, lanes: number): Promise<{ claimMs: number; pickupMs: number; heapMb: number }> {
  const waits: number[] = []
  let first = lanes
  let fill = (): void => undefined
  const filled = new Promise<void>((resolve) => (fill = resolve))
  const call = task('call', input<{ key: string; atMs?: number }>(), {
    limits: [yearly.by((job) => job.key)],
    run: ({ atMs }) => {
      if (atMs !== undefined) waits.push(nowMs() - atMs)
      else if (--first === 0) fill()
    },
  })
  const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [call], queues: { default: { concurrency: 100 } } })
  for (let i = 0; i < lanes; i += 500)
    await call.enqueueMany(Array.from({ length: 500 * (DEPTH + 1) }, (_, k) => ({ key: `closed${i + (k % 500)}` })))
  await sluice.start()
  // The first job of each lane starts; all others wait for a year.
  if (lanes > 0) await filled
  await sleep(500)
  const heapMb = heapAfterCollection()
  for (let i = 0; i < PROBES; i++) {
    await (await call.enqueue({ key: `fresh${i}`, atMs: nowMs() })).result()
    await sleep(3)
  }
  await sluice.stop()
  const retention = { completedUs: 1e12, cancelledUs: 1e12, discardedUs: 1e12 }
  const store = await createStore(`sqlite:${path}`, { clock: systemClock, durability: 'power', retention })
  await store.open()
  const worker = await store.join(['default'], 30_000_000)
  const claims: number[] = []
  for (let i = 0; i < PROBES; i++) {
    const startMs = nowMs()
    await store.claim(() => ({ worker, leaseUs: 30_000_000, queues: [{ queue: 'default', slots: 100, uses: [] }] }))
    claims.push(nowMs() - startMs)
  }
  await store.close()
  return { claimMs: quantile(claims, 0.5), pickupMs: quantile(waits, 0.5), heapMb }
}

await measure(
  `${(LANES * DEPTH).toLocaleString('en')} jobs waiting in ${LANES.toLocaleString('en')} closed lanes, against an empty store`,
  async (path) => {
    const empty = await probe(`${path}-empty`, 0)
    const full = await probe(path, LANES)
    return {
      'empty claim p50 ms, empty store': empty.claimMs,
      'empty claim p50 ms, full store': full.claimMs,
      'claim ratio': full.claimMs / empty.claimMs,
      'fresh key p50 ms, empty store': empty.pickupMs,
      'fresh key p50 ms, full store': full.pickupMs,
      'pick-up ratio': full.pickupMs / empty.pickupMs,
      'heap MB, empty store': empty.heapMb,
      'heap MB, full store': full.heapMb,
    }
  },
)
