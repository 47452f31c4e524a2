import { PgBoss } from 'pg-boss'
import { Booking, type Engine, type Payload } from '../engine.ts'
import { dropSchema } from './schema.ts'

const QUEUE = 'bench'

/** pg-boss. It fetches in batches and hands a batch to one call of the handler. */
export const pgBoss: Engine = {
  label: 'pg-boss 12.34',
  settings: {
    ordinary: 'batchSize = concurrency, burstWhenBatchFull, LISTEN/NOTIFY',
    best: 'the same with 4 workers of batchSize 500',
  },
  budgets: 'the handler sends the job again with startAfter, booked by tenant in memory',
  async open({ postgres, space, profile, concurrency, tenantPerSecond }) {
    const boss = new PgBoss({ connectionString: postgres, schema: space, useListenNotify: true })
    boss.on('error', (error) => console.error(error))
    await boss.start()
    await boss.createQueue(QUEUE, { notify: true })
    const booking = new Booking(tenantPerSecond ?? 1)
    const booked = (payload: Payload): number =>
      tenantPerSecond === undefined || payload.booked === true ? 0 : booking.delayMs(payload.tenant ?? '')
    return {
      enqueue: (payload) => boss.send(QUEUE, payload),
      enqueueMany: (payloads) =>
        boss.insert(
          QUEUE,
          payloads.map((data) => ({ data })),
        ),
      async work(run) {
        const best = profile === 'best'
        const options = {
          batchSize: best ? 500 : concurrency,
          localConcurrency: best ? 4 : 1,
          burstWhenBatchFull: true,
          pollingIntervalSeconds: 0.5,
        }
        await boss.work<Payload>(QUEUE, options, async (jobs) => {
          const again: { data: Payload; startAfter: Date }[] = []
          for (const { data } of jobs) {
            const delayMs = booked(data)
            if (delayMs <= 0) run(data)
            else again.push({ data: { ...data, booked: true }, startAfter: new Date(Date.now() + delayMs) })
          }
          if (again.length > 0) await boss.insert(QUEUE, again)
        })
      },
      close: () => boss.stop({ graceful: true, timeout: 2000 }),
    }
  },
  erase: ({ postgres, space }) => dropSchema(postgres, space),
}
