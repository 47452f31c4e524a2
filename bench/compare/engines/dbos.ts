import { DBOS } from '@dbos-inc/dbos-sdk'
import { type Engine, type Flows, nowUs, type Payload, type Setting } from '../engine.ts'
import { asker, statement } from './schema.ts'

const QUEUE = 'bench'
const AT_ONCE = 40

function databaseOf({ postgres, space }: Setting): string {
  const url = new URL(postgres)
  url.pathname = `/${space}`
  return url.toString()
}

let handler = (_: Payload): void | Promise<void> => undefined
/** A process registers a name once. */
const workflow = DBOS.registerWorkflow(async (payload: Payload) => handler(payload), { name: 'job' })

const begun = new Map<number, number>()
const steps = DBOS.registerWorkflow(
  async (count: number, run: number) => {
    for (let n = 0; n < count; n++)
      await DBOS.runStep(
        () => {
          if (n === 0) begun.set(run, nowUs())
          return Promise.resolve(n)
        },
        { name: `s${n}` },
      )
  },
  { name: 'steps' },
)
let runs = 0
const flows: Flows = {
  async run(count) {
    const run = runs++
    await (await DBOS.startWorkflow(steps)(count, run)).getResult()
    const atUs = begun.get(run) ?? NaN
    begun.delete(run)
    return atUs
  },
  /** It keeps a workflow in memory while it waits. A fork enters a new one behind copies of its first steps. */
  async enter(remembered) {
    const handle = await DBOS.startWorkflow(steps)(remembered + 1, runs++)
    await handle.getResult()
    const startUs = nowUs()
    await (await DBOS.forkWorkflow(handle.workflowID, remembered)).getResult()
    return (nowUs() - startUs) / 1000
  },
}

/** DBOS: one workflow per job. A process has one instance, which works as soon as it is open. */
export const dbos: Engine = {
  label: 'DBOS 5.3',
  settings: { ordinary: 'minPollingIntervalMs 50, pool of 20', best: 'the same' },
  budgets: 'partitionRateLimit by key',
  worksAtOnce: true,
  pace: 0.05,
  async open(setting) {
    const { concurrency, budget } = setting
    const url = databaseOf(setting)
    const [found] = await statement(setting.postgres, `SELECT 1 FROM pg_database WHERE datname = '${setting.space}'`)
    if (!found) await statement(setting.postgres, `CREATE DATABASE "${setting.space}"`)
    DBOS.setConfig({
      name: 'bench',
      systemDatabaseUrl: url,
      logLevel: 'error',
      systemDatabasePoolSize: 20,
      runAdminServer: false,
      applicationVersion: 'v1',
      executorID: `process-${process.pid}`,
      ...(concurrency === 0 && { listenQueues: ['none'] }),
    })
    await DBOS.launch()
    await DBOS.registerQueue(QUEUE, {
      minPollingIntervalMs: 50,
      ...(budget && { partitionRateLimit: { limitPerPeriod: budget.perSecond, periodSec: 1 } }),
      onConflict: 'always_update',
    })
    const left = asker(url, "SELECT 1 FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')")
    const enqueue = (payload: Payload): Promise<{ getResult: () => Promise<unknown> }> =>
      DBOS.startWorkflow(workflow, {
        queueName: QUEUE,
        ...(budget && { enqueueOptions: { queuePartitionKey: payload.key ?? 'a' } }),
      })(payload)
    return {
      enqueue,
      async enqueueMany(payloads) {
        let next = 0
        const one = async (): Promise<void> => {
          while (next < payloads.length) await enqueue(payloads[next++] as Payload)
        }
        await Promise.all(Array.from({ length: AT_ONCE }, one))
      },
      result: async (payload) => (await enqueue(payload)).getResult(),
      work(run) {
        handler = run
        return Promise.resolve()
      },
      hasWork: left.exists,
      flows,
      async close() {
        await left.end()
        await DBOS.shutdown()
      },
    }
  },
  erase: async ({ postgres, space }) => {
    await statement(postgres, `DROP DATABASE IF EXISTS "${space}" WITH (FORCE)`)
  },
}
