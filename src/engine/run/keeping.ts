import { extraOf } from '../../jobs/job-extra.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { Settlement } from '../../jobs/settlement.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Retained, RetainedPage } from '../../store/contract/retained.ts'
import { USUAL_RETENTION } from '../../store/contract/retention.ts'
import { keptFor, type TermsOfQueues } from '../define/job-terms.ts'
import type { TaskDefinition } from '../define/task.ts'

/** Jobs that one statement reads. */
const PAGE = 1000
/** A transaction may commit the end of a job this much later. */
const LATE_US = 60_000_000

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
  /** Jobs that ended before that have their times. */
  #retainedUs = 0

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

  /**
   * Gives jobs that ended without a run, or by a process with other times, those of their task or queue, before pruning
   * looks at them. The first call looks at all of them, later ones at those that ended since.
   */
  async retain(): Promise<void> {
    const { store, tasks, queueTerms } = this.#options
    const terms = [...tasks.values(), ...queueTerms.values()].map(({ kept }) => kept ?? {})
    const sinceUs = this.#retainedUs
    const nowUs = store.nowUs()
    for (const state of ['cancelled', 'discarded'] as const) {
      const own = `${state}Us` as const
      const storeUs = store.retention[own]
      const isUsual = storeUs === USUAL_RETENTION[own]
      if (isUsual && terms.every((kept) => kept[own] === undefined && kept.count === undefined)) continue
      const keepUs = (task: string, queue: string): number | undefined =>
        tasks.has(task) ? (keptFor(tasks.get(task) ?? {}, queue, queueTerms)[own] ?? storeUs) : undefined
      for (let after: RetainedPage['after'] = null; ;) {
        const page: Retained = await store.retain({ state, sinceUs, after, rows: PAGE }, keepUs)
        for (const task of page.tasks) if (tasks.get(task)?.kept?.count !== undefined) this.#ended.add(task)
        after = page.after
        if (after === null) break
      }
    }
    this.#retainedUs = nowUs - LATE_US
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
