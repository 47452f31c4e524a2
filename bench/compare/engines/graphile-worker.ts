import { Logger, makeWorkerUtils, run as runWorker, type Runner } from 'graphile-worker'
import { type Engine, nowUs, type Payload } from '../engine.ts'
import { dropSchema } from './schema.ts'

const quiet = new Logger(() => (level, message) => void (level === 'error' && console.error(message)))

/** Graphile Worker. Its documented way to hold a tenant back is a flag on the job, forbidden while the budget is out. */
export const graphileWorker: Engine = {
  label: 'Graphile Worker 0.18',
  settings: {
    ordinary: 'concurrentJobs = concurrency, maxPoolSize 10',
    best: 'concurrentJobs 24, maxPoolSize 25, localQueue 500, completions batched (its documentation’s own)',
  },
  budgets: 'forbiddenFlags by tenant, from a counter in memory (excludes its local queue)',
  async open({ postgres, space, profile, concurrency, tenantPerSecond }) {
    const common = { connectionString: postgres, schema: space, logger: quiet }
    const utils = await makeWorkerUtils(common)
    await utils.migrate()
    let runner: Runner | null = null
    const freeAtUs = new Map<string, number>()
    const flagsOf = ({ tenant }: Payload): { flags?: string[] } =>
      tenantPerSecond === undefined || tenant === undefined ? {} : { flags: [tenant] }
    return {
      enqueue: (payload) => utils.addJob('bench', payload, flagsOf(payload)),
      enqueueMany: (payloads) =>
        utils.addJobs(payloads.map((payload) => ({ identifier: 'bench', payload, ...flagsOf(payload) }))),
      async work(run) {
        const best = profile === 'best' && tenantPerSecond === undefined
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
          ...(tenantPerSecond === undefined
            ? {}
            : { forbiddenFlags: () => [...freeAtUs].filter(([, at]) => at > nowUs()).map(([tenant]) => tenant) }),
          taskList: {
            bench: (payload) => {
              const job = payload as Payload
              if (tenantPerSecond !== undefined && job.tenant !== undefined)
                freeAtUs.set(job.tenant, nowUs() + 1e6 / tenantPerSecond)
              run(job)
            },
          },
        })
      },
      async close() {
        await runner?.stop()
        await utils.release()
      },
    }
  },
  erase: ({ postgres, space }) => dropSchema(postgres, space),
}
