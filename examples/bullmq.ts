// Budgets in front of BullMQ: jobs of two tenants start within each one's rate. It needs a Redis; SLUICE_TEST_REDIS names
// another than that of this machine. Run it with: npx node examples/bullmq.ts
import { type Job, Queue, Worker } from 'bullmq'
import { withBudgets } from '../src/exports/bullmq.ts'
import { createLimiter, limit } from '../src/exports/limiter.ts'

const redis = process.env['SLUICE_TEST_REDIS'] ?? 'redis://127.0.0.1:6379'
const connection = {
  host: new URL(redis).hostname,
  port: Number(new URL(redis).port) || 6379,
  maxRetriesPerRequest: null,
}
const prefix = `example-${process.pid}`

const crm = limit('crm', { rate: 10, per: '1s', burst: 2 })
const limiter = createLimiter({ backend: redis, namespace: prefix, limits: [crm] })
const queue = new Queue<{ tenant: string }>('sync', { connection, prefix })

const startMs = Date.now()
let ended = 0
const processor = withBudgets(
  limiter,
  { uses: (job: Job<{ tenant: string }>) => [crm.key(job.data.tenant)] },
  async (job) => {
    console.log(
      `${job.data.tenant} started after ${Math.floor((Date.now() - startMs) / 100) * 100} ms or a little more`,
    )
    ended++
  },
)
const worker = new Worker('sync', processor, { connection, prefix, concurrency: 10 })

const jobs = ['acme', 'acme', 'acme', 'acme', 'birch'].map((tenant) => ({ name: 'sync', data: { tenant } }))
await queue.addBulk(jobs)
while (ended < jobs.length) await new Promise((resolve) => setTimeout(resolve, 20))

await worker.close()
await queue.obliterate({ force: true })
await queue.close()
await limiter.close()
