import { type BackendFactory, createPostgresBackend, DelayedError, type Job, Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { Booking, type Engine, type Payload, type Setting, type Side } from '../engine.ts'
import { dropSchema } from './schema.ts'

const QUEUE = 'bench'

interface Options {
  readonly connection: object
  readonly prefix?: string
}

async function open(
  { profile, concurrency, tenantPerSecond }: Setting,
  options: Options,
  backend?: BackendFactory,
): Promise<Side> {
  const best = profile === 'best'
  const settings = best ? { removeOnComplete: true } : {}
  // Its types require a factory or none at compile time; here the choice is made at run time.
  const factory = backend as undefined
  const queue = new Queue<Payload>(QUEUE, options, factory)
  await queue.waitUntilReady()
  const booking = new Booking(tenantPerSecond ?? 1)
  let worker: Worker<Payload> | null = null
  return {
    enqueue: (payload) => queue.add('job', payload, settings),
    enqueueMany: (payloads) => queue.addBulk(payloads.map((data) => ({ name: 'job', data, opts: settings }))),
    async work(run) {
      const process = async (job: Job<Payload>, token?: string): Promise<void> => {
        const { data } = job
        if (tenantPerSecond !== undefined && data.booked !== true) {
          const delayMs = booking.delayMs(data.tenant ?? '')
          if (delayMs > 0) {
            await job.updateData({ ...data, booked: true })
            await job.moveToDelayed(Date.now() + delayMs, token)
            throw new DelayedError()
          }
        }
        run(data)
      }
      worker = new Worker<Payload>(QUEUE, process, { ...options, concurrency }, factory)
      worker.on('error', (error) => console.error(error))
      await worker.waitUntilReady()
    },
    async close() {
      await worker?.close()
      await queue.close()
    },
  }
}

const BUDGETS =
  'the handler moves the job to delayed, booked by tenant in memory (its groups are not part of the open version)'
const SETTINGS = { ordinary: 'concurrency as given', best: 'the same with removeOnComplete' }

function redisOptions({ redis, space }: Setting): Options {
  const { hostname, port } = new URL(redis)
  return { connection: { host: hostname, port: Number(port || 6379), maxRetriesPerRequest: null }, prefix: space }
}

/** BullMQ on Redis, as Redis is set up here: without `appendonly` an acknowledgement is not yet durable. */
export const bullmqRedis: Engine = {
  label: 'BullMQ 6.7 on Redis',
  settings: SETTINGS,
  budgets: BUDGETS,
  open: (setting) => open(setting, redisOptions(setting)),
  async erase({ redis, space }) {
    const client = new Redis(redis)
    for await (const keys of client.scanStream({ match: `${space}:*`, count: 1000 }) as AsyncIterable<string[]>)
      if (keys.length > 0) await client.unlink(keys)
    await client.quit()
  },
}

/** BullMQ on PostgreSQL. */
export const bullmqPostgres: Engine = {
  label: 'BullMQ 6.7 on PostgreSQL',
  settings: SETTINGS,
  budgets: BUDGETS,
  open: (setting) =>
    open(
      setting,
      { connection: { connectionString: setting.postgres, schema: setting.space, migrate: true } },
      createPostgresBackend as unknown as BackendFactory,
    ),
  erase: ({ postgres, space }) => dropSchema(postgres, space),
}
