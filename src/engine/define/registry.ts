import { refuseForQueue } from './budgets.ts'
import { dependsOnJob, LimitRegistry, specsOf } from './limit-registry.ts'
import type { EngineSettings, SluiceOptions } from './options.ts'

/** The limits that the options of an engine name. @throws {SluiceError} `limit.conflict`, `budget.unknown` */
export function registryOf({ limits }: SluiceOptions, { budgets, logger, queues }: EngineSettings): LimitRegistry {
  const registry = new LimitRegistry((message) => logger.warn({}, message), budgets.keys())
  for (const use of specsOf(limits, 'limits of new Sluice')) registry.add(use, 'the limits of new Sluice')
  for (const { queue, specs } of queues)
    for (const use of specs) {
      if (!dependsOnJob(use)) refuseForQueue(queue, use.limit, use.policy)
      registry.add(use, `queue ${queue}`)
    }
  return registry
}
