import type { NewJob } from '../jobs/job.ts'
import { inLaneOrder } from '../jobs/lane.ts'
import type { BucketUse } from '../store/contract/store.ts'
import type { LimitRegistry } from '../engine/define/limit-registry.ts'
import type { QueueLimits } from '../engine/define/queue-limits.ts'
import type { TaskDefinition } from '../engine/define/task.ts'

/**
 * A job of a remote client, with the limits of its task, where this engine knows that, and those that its queue gives each job.
 * @throws as the resolution of keys and weights
 */
export function withOwnLimits(
  job: NewJob,
  tasks: ReadonlyMap<string, TaskDefinition>,
  registry: LimitRegistry,
  queues: QueueLimits,
): NewJob {
  const specs = [...(tasks.get(job.task)?.uses ?? []), ...queues.ofJobs(job.queue)]
  if (specs.length === 0) return job
  const asked = { weight: undefined, priority: job.priority }
  const own = registry.resolve(specs, JSON.parse(job.input), asked, job.task)
  const uses = [...job.uses, ...own.filter((use) => !job.uses.some((each) => isSame(each, use)))]
  return { ...job, uses: inLaneOrder(uses) }
}

function isSame(a: BucketUse, b: BucketUse): boolean {
  return a.limit === b.limit && a.key === b.key
}
