import type { NewJob } from '../jobs/job.ts'
import { inLaneOrder } from '../jobs/lane.ts'
import type { BucketUse } from '../store/contract/store.ts'
import type { LimitRegistry } from '../engine/define/limit-registry.ts'
import type { QueueLimits } from '../engine/define/queue-limits.ts'
import type { TaskDefinition } from '../engine/define/task.ts'

/**
 * Adds to a remote client's job the limits of its task, if this engine lists it, and those of its queue.
 * @throws {SluiceError} the codes of the resolution of keys and weights
 */
export function withOwnLimits(
  job: NewJob,
  tasks: ReadonlyMap<string, TaskDefinition>,
  registry: LimitRegistry,
  queues: QueueLimits,
): NewJob {
  const specs = [...(tasks.get(job.task)?.uses ?? []), ...queues.ofJobs(job.queue)]
  if (specs.length === 0) return job
  const terms = { weight: undefined, priority: job.priority }
  const own = registry.resolve(specs, JSON.parse(job.input), terms, job.task)
  const uses = [...job.uses, ...own.filter((use) => !job.uses.some((each) => isSame(each, use)))]
  return { ...job, uses: inLaneOrder(uses) }
}

function isSame(a: BucketUse, b: BucketUse): boolean {
  return a.limit === b.limit && a.key === b.key
}
