// 1,000 tenants with 20 jobs each at 1/s on one queue of BullMQ, and one more, B, that may start 100/s and adds a job
// every 100 ms once the others are booked; with budgets, and BullMQ alone with one limiter for its queue. Run it with:
// npx node bench/bullmq.ts. TENANTS, JOBS and CONCURRENCY make it smaller.
import { randomUUID } from 'node:crypto'
import { type Job, Queue, Worker } from 'bullmq'
import { withBudgets } from '../src/exports/bullmq.ts'
import { createLimiter, limit } from '../src/exports/limiter.ts'
import { measure, nowMs, type Numbers, quantile } from './measure.ts'

const TENANTS = Number(process.env['TENANTS'] ?? 1000)
const JOBS = Number(process.env['JOBS'] ?? 20)
const CONCURRENCY = Number(process.env['CONCURRENCY'] ?? 100)
const ARRIVALS = 100
const REDIS = process.env['SLUICE_TEST_REDIS'] ?? 'redis://127.0.0.1:6379'

/** Jobs that wait for their first fetch let those pass that are back for their start. */
const FIRST = { priority: 1 }

interface Data {
  readonly tenant: string
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

async function drain(hasBudgets: boolean): Promise<Numbers> {
  const prefix = `bench-${randomUUID()}`
  const url = new URL(REDIS)
  const connection = { host: url.hostname, port: Number(url.port) || 6379, maxRetriesPerRequest: null }
  const own = limit('own', { rate: 1, per: '1s' })
  const wide = limit('wide', { rate: 100, per: '1s' })
  const limiter = createLimiter({ backend: REDIS, namespace: prefix, limits: [own, wide] })
  const queue = new Queue<Data>('calls', { connection, prefix })
  const starts = new Map<string, number[]>()
  const startedMs = new Map<string, number>()
  const processor = async (job: Job<Data>): Promise<void> => {
    const atMs = nowMs()
    const known = starts.get(job.data.tenant)
    if (known) known.push(atMs)
    else starts.set(job.data.tenant, [atMs])
    startedMs.set(job.id ?? '', atMs)
  }
  const uses = ({ data }: Job<Data>) => [(data.tenant === 'b' ? wide : own).key(data.tenant)]
  const worker = new Worker<Data>('calls', hasBudgets ? withBudgets(limiter, { uses }, processor) : processor, {
    connection,
    prefix,
    concurrency: CONCURRENCY,
    autorun: false,
    ...(!hasBudgets && { limiter: { max: TENANTS + 100, duration: 1000 } }),
  })
  worker.on('error', () => undefined)
  const all = Array.from({ length: TENANTS * JOBS }, (_, i) => ({
    name: 'call',
    data: { tenant: `t${i % TENANTS}` },
    opts: FIRST,
  }))
  for (let i = 0; i < all.length; i += 2000) await queue.addBulk(all.slice(i, i + 2000))
  const beganMs = nowMs()
  const running = worker.run()
  if (hasBudgets) while ((await queue.getJobCountByTypes('waiting', 'prioritized')) > 0) await sleep(20)
  const bookedMs = nowMs() - beganMs
  const added: { readonly id: string; readonly atMs: number }[] = []
  for (let i = 0; i < ARRIVALS; i++) {
    const atMs = nowMs()
    added.push({ id: (await queue.add('call', { tenant: 'b' }, FIRST)).id ?? '', atMs })
    await sleep(Math.max(0, 100 - (nowMs() - atMs)))
  }
  while ((await queue.getJobCountByTypes('completed')) < all.length + ARRIVALS) await sleep(50)
  const fetches = (await queue.getJobs(['completed'], 0, -1)).map((job) => job.attemptsStarted)
  await worker.close()
  await running
  await queue.obliterate({ force: true })
  await queue.close()
  await limiter.close()
  starts.delete('b')
  const backlogs = [...starts.values()]
  const closest = backlogs.flatMap((times) => times.slice(1).map((atMs, i) => atMs - (times[i] ?? 0)))
  const used = backlogs.map((times) => ((times.length - 1) * 1000) / ((times.at(-1) ?? 0) - (times[0] ?? 0)))
  const waits = added.map(({ id, atMs }) => (startedMs.get(id) ?? Infinity) - atMs)
  const name = hasBudgets ? 'with budgets' : 'BullMQ alone'
  return {
    [`${name}, used of each budget`]: quantile(used, 0.5),
    [`${name}, closest starts, ms`]: Math.min(...closest),
    [`${name}, B's wait p50, ms`]: quantile(waits, 0.5),
    [`${name}, B's wait p99, ms`]: quantile(waits, 0.99),
    [`${name}, fetches of a job`]: fetches.reduce((sum, count) => sum + count, 0) / fetches.length,
    [`${name}, fetches at most`]: Math.max(...fetches),
    ...(hasBudgets && { [`${name}, all booked after, ms`]: bookedMs }),
  }
}

await measure(`${TENANTS} tenants with ${JOBS} jobs each, at 1/s each`, async () => ({
  ...(await drain(true)),
  ...(await drain(false)),
}))
process.exit(0)
