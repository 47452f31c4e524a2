import { type Job, Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { type Engine, type Payload, type Setting } from '../engine.ts'

const QUEUE = 'bench'

function optionsOf({ redis, space }: Setting): { connection: object; prefix: string } {
  const { hostname, port } = new URL(redis)
  return { connection: { host: hostname, port: Number(port || 6379), maxRetriesPerRequest: null }, prefix: space }
}

/** BullMQ on Redis without `appendonly`: an acknowledgement is not yet durable. */
export const bullmq: Engine = {
  label: 'BullMQ 6.7 on Redis',
  settings: {
    ordinary: 'concurrency as given, removeOnComplete',
    best: 'the same: its documentation names no other setting',
  },
  budgets: 'none by key in the open version: a queue for each key, each with its own limiter, would be needed',
  async open(setting) {
    const options = optionsOf(setting)
    const settings = { removeOnComplete: true, removeOnFail: true }
    const queue = new Queue<Payload>(QUEUE, options)
    await queue.waitUntilReady()
    let worker: Worker<Payload> | null = null
    return {
      enqueue: (payload) => queue.add('job', payload, settings),
      enqueueMany: (payloads) => queue.addBulk(payloads.map((data) => ({ name: 'job', data, opts: settings }))),
      async work(run) {
        worker = new Worker<Payload>(QUEUE, async ({ data }: Job<Payload>) => run(data), {
          ...options,
          concurrency: setting.concurrency,
          removeOnComplete: { count: 0 },
        })
        worker.on('error', (error) => console.error(error))
        await worker.waitUntilReady()
      },
      async hasWork() {
        const counts = await queue.getJobCounts('wait', 'active', 'prioritized', 'delayed')
        return Object.values(counts).some((count) => count > 0)
      },
      async close() {
        await worker?.close()
        await queue.close()
      },
    }
  },
  async erase({ redis, space }) {
    const client = new Redis(redis)
    for await (const keys of client.scanStream({ match: `${space}:*`, count: 1000 }) as AsyncIterable<string[]>)
      if (keys.length > 0) await client.unlink(keys)
    await client.quit()
  },
}
