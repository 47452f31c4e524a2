import type { UseSpec } from '../../policy/limits/define.ts'
import type { BucketUse, DeclaredQueue } from '../../store/contract/store.ts'
import { dependsOnJob, type LimitRegistry } from './limit-registry.ts'
import type { EngineSettings } from './options.ts'

/**
 * The limits of queues: those of the whole queue, and those whose key depends on the job, which count as the job's own.
 */
export class QueueLimits {
  readonly #queues: EngineSettings['queues']
  readonly #registry: LimitRegistry

  constructor(queues: EngineSettings['queues'], registry: LimitRegistry) {
    this.#queues = queues
    this.#registry = registry
  }

  /** The buckets that every start of a queue needs. */
  #uses(queue: string): BucketUse[] {
    const own = this.#specs(queue).filter((spec) => !dependsOnJob(spec))
    return this.#registry.resolve(own, undefined, { weight: undefined, priority: null }, `of queue ${queue}`)
  }

  /** The limits that each job of a queue has of its own because of it. */
  ofJobs(queue: string): readonly UseSpec<never>[] {
    return this.#specs(queue).filter(dependsOnJob)
  }

  /** This engine's declarations of whole queues. A queue without listed limits has none. */
  declared(): DeclaredQueue[] {
    return this.#queues.flatMap(({ queue, version }) =>
      version === null ? [] : [{ queue, uses: this.#uses(queue), version }],
    )
  }

  #specs(queue: string): readonly UseSpec<never>[] {
    return this.#queues.find((each) => each.queue === queue)?.specs ?? []
  }
}
