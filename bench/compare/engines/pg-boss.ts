import { PgBoss } from 'pg-boss'
import { type Engine, type Payload } from '../engine.ts'
import { asker, dropSchema } from './schema.ts'

const QUEUE = 'bench'

/** pg-boss. It fetches in batches and hands a batch to one call of the handler. */
export const pgBoss: Engine = {
  label: 'pg-boss 12.34',
  settings: {
    ordinary: 'batchSize = concurrency, burstWhenBatchFull, LISTEN/NOTIFY',
    best: 'the same with 2 workers of batchSize 1,000',
  },
  budgets: 'none by key over time; groupConcurrency bounds what runs at once',
  async open({ postgres, space, profile, concurrency }) {
    const boss = new PgBoss({ connectionString: postgres, schema: space, useListenNotify: true })
    boss.on('error', (error) => console.error(error))
    await boss.start()
    await boss.createQueue(QUEUE, { notify: true })
    const left = asker(postgres, `SELECT 1 FROM "${space}".job WHERE name = '${QUEUE}' AND state < 'completed'`)
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
          batchSize: best ? 1000 : concurrency,
          localConcurrency: best ? 2 : 1,
          burstWhenBatchFull: true,
          pollingIntervalSeconds: 0.5,
        }
        await boss.work<Payload>(QUEUE, options, async (jobs) => {
          for (const { data } of jobs) await run(data)
        })
      },
      hasWork: left.exists,
      async close() {
        await boss.stop({ graceful: true, timeout: 2000 })
        await left.end()
      },
    }
  },
  erase: ({ postgres, space }) => dropSchema(postgres, space),
}
