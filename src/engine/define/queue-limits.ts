import type { UseSpec } from '../../policy/limits/define.ts'
import type { BucketUse, DeclaredQueue } from '../../store/contract/store.ts'
import { hangsOnJob, type LimitRegistry } from './limit-registry.ts'
import type { EngineSettings } from './options.ts'

/** The limits that queues were given: those of the queue as a whole, and those whose key hangs on the job, which count as its own. */
export class QueueLimits {
  readonly #queues: EngineSettings['queues']
  readonly #registry: LimitRegistry

  constructor(queues: EngineSettings['queues'], registry: LimitRegistry) {
    this.#queues = queues
    this.#registry = registry
  }

  /** The buckets that all starts of a queue need. */
  #uses(queue: string): BucketUse[] {
    const own = this.#specs(queue).filter((spec) => !hangsOnJob(spec))
    return this.#registry.resolve(own, undefined, { weight: undefined, priority: null }, `of queue ${queue}`)
  }

  /** The limits that each job of a queue has of its own because of it. */
  ofJobs(queue: string): readonly UseSpec<never>[] {
    return this.#specs(queue).filter(hangsOnJob)
  }

  /** What this engine says of its queues as a whole: nothing of those for which it lists no limits. */
  declared(): DeclaredQueue[] {
    return this.#queues.flatMap(({ queue, version }) =>
      version === null ? [] : [{ queue, uses: this.#uses(queue), version }],
    )
  }

  #specs(queue: string): readonly UseSpec<never>[] {
    return this.#queues.find((each) => each.queue === queue)?.specs ?? []
  }
}
