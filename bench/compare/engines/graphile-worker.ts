import { Logger, makeWorkerUtils, run as runWorker, type Runner } from 'graphile-worker'
import { type Engine, type Payload } from '../engine.ts'
import { asker, dropSchema } from './schema.ts'

const quiet = new Logger(() => (level, message) => void (level === 'error' && console.error(message)))

/** Graphile Worker. Jobs of one queue name run one after the other: its nearest to a budget by key. */
export const graphileWorker: Engine = {
  label: 'Graphile Worker 0.18',
  settings: {
    ordinary: 'concurrentJobs = concurrency, maxPoolSize 10',
    best: 'concurrentJobs 24, maxPoolSize 25, localQueue 500, completions batched (its documentation’s own)',
  },
  budgets: 'a queue name by key, whose jobs run one after the other',
  async open({ postgres, space, profile, concurrency, budget }) {
    const common = { connectionString: postgres, schema: space, logger: quiet }
    const utils = await makeWorkerUtils(common)
    await utils.migrate()
    let runner: Runner | null = null
    const left = asker(postgres, `SELECT 1 FROM "${space}"._private_jobs`)
    const optionsOf = ({ key }: Payload): { queueName?: string } =>
      budget === undefined || key === undefined ? {} : { queueName: key }
    return {
      enqueue: (payload) => utils.addJob('bench', payload, optionsOf(payload)),
      enqueueMany: (payloads) =>
        utils.addJobs(payloads.map((payload) => ({ identifier: 'bench', payload, ...optionsOf(payload) }))),
      async work(run) {
        const best = profile === 'best'
        runner = await runWorker({
          ...common,
          noHandleSignals: true,
          preset: {
            worker: {
              concurrentJobs: best ? 24 : concurrency,
              maxPoolSize: best ? 25 : 10,
              ...(best ? { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {}),
            },
          },
          taskList: { bench: async (payload) => run(payload as Payload) },
        })
      },
      hasWork: left.exists,
      async close() {
        await Promise.race([runner?.stop(), new Promise((resolve) => setTimeout(resolve, 2000))])
        await utils.release()
        await left.end()
      },
    }
  },
  erase: ({ postgres, space }) => dropSchema(postgres, space),
}
