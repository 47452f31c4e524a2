import { extraOf } from '../../jobs/job-extra.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { Settlement } from '../../jobs/settlement.ts'
import type { Store } from '../../store/contract/store.ts'
import { keptFor, type TermsOfQueues } from '../define/job-terms.ts'
import type { TaskDefinition } from '../define/task.ts'

/** The parts of the keeping of ended jobs. */
export interface KeepingOptions {
  readonly store: Store
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  readonly queueTerms: TermsOfQueues
  /** Deletes ended jobs of a task beyond the newest so many. */
  readonly trim: (task: string, count: number) => Promise<void>
}

/** Says how long the jobs that end in this process are kept, and deletes those that are too many. */
export class Keeping {
  readonly #options: KeepingOptions
  /** Tasks with a count of which jobs have ended since the last trim. */
  readonly #ended = new Set<string>()

  constructor(options: KeepingOptions) {
    this.#options = options
  }

  /** How long a job that this settlement ends is kept; of a flow: as long as its flow. */
  of(job: GrantedJob, { kind }: Settlement): Pick<Settlement, 'keepUs' | 'keepAtLeastUs'> {
    const { task, queue, flow, createdUs } = job
    if (flow || (kind !== 'complete' && kind !== 'cancel' && kind !== 'discard')) return {}
    const { store, tasks, queueTerms } = this.#options
    const kept = keptFor(tasks.get(task) ?? {}, queue, queueTerms)
    if (kept.count !== undefined) this.#ended.add(task)
    const keepUs = kind === 'complete' ? kept.completedUs : kind === 'cancel' ? kept.cancelledUs : kept.discardedUs
    const { keyMs } = kind === 'complete' ? extraOf(job) : {}
    return {
      ...(keepUs !== undefined && { keepUs }),
      // A job that is gone holds no key.
      ...(keyMs !== undefined && { keepAtLeastUs: Math.max(0, Math.ceil(createdUs + keyMs * 1000 - store.nowUs())) }),
    }
  }

  /** Deletes the oldest ended jobs of tasks that keep only so many. */
  async trim(): Promise<void> {
    for (const task of this.#ended) {
      this.#ended.delete(task)
      const count = this.#options.tasks.get(task)?.kept?.count
      if (count !== undefined) await this.#options.trim(task, count)
    }
  }
}
