// The demo's worker, a process of its own so that the demo can kill it. worker-process.ts starts it and gets its
// reports.
import { systemClock } from '../../base/clock.ts'
import { consoleLogger, silentLogger } from '../../base/logger.ts'
import { Sluice } from '../../engine/engine.ts'
import { partnerLimits, partnerTask } from './partner-task.ts'
import { budgetsOption, type SharedBudgets } from './shared-budgets.ts'

const WARM_UP_ROUNDS = 3

const [store = '', partnerUrl = '', slots = '', guardMs = '', budgets = 'null'] = process.argv.slice(2)
const concurrency = Number(slots)
const shared = JSON.parse(budgets) as SharedBudgets | null
const limits = partnerLimits(Number(guardMs), shared !== null)
const sluice = new Sluice({
  store,
  tasks: [partnerTask(partnerUrl, limits)],
  limits: Object.values(limits.plans),
  budgets: budgetsOption(shared),
  queues: { default: { concurrency } },
  // The demo loses runs on purpose; logging them would break the live table.
  logger: { ...silentLogger, error: (fields, message) => consoleLogger.error(fields, message) },
})
const stop = async (): Promise<void> => {
  await sluice.stop()
  if (process.connected) process.disconnect()
}

process.once('message', () => void stop())
// The parent process is gone, so the results would be lost.
process.once('disconnect', () => void stop())
// Ctrl-C reaches the whole process group; the parent decides how this process ends.
process.on('SIGINT', () => undefined)

// A connection for every slot, opened before the first call: otherwise the first starts arrive late and the next ones early.
for (let round = 0; round < WARM_UP_ROUNDS; round++)
  await Promise.all(Array.from({ length: concurrency }, async () => (await fetch(partnerUrl)).arrayBuffer()))
await sluice.start()
process.send?.({ readyUs: systemClock.monotonicUs() })
