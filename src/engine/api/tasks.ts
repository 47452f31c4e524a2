import { type JobState, STATES } from '../../jobs/job-state.ts'
import type { Store } from '../../store/contract/store.ts'
import { allSpans } from './find-jobs.ts'

/** A task that a live worker lists, or that has jobs in the store. */
export interface TaskView {
  readonly name: string
  /** Its stored jobs by state. */
  readonly jobs: Readonly<Record<JobState, number>>
  /** Live workers that list it, or take any task. */
  readonly workers: number
}

/** The tasks of the store. */
export class TasksApi {
  readonly #store: () => Promise<Store>

  constructor({ store }: { readonly store: () => Promise<Store> }) {
    this.#store = store
  }

  /** All tasks, by name. It counts all jobs, in parts between which other work goes on. */
  async list(): Promise<TaskView[]> {
    const store = await this.#store()
    const live = (await store.workers()).filter(({ alive }) => alive)
    const counts = new Map<string, Record<JobState, number>>()
    const of = (task: string): Record<JobState, number> => {
      const found = counts.get(task) ?? none()
      counts.set(task, found)
      return found
    }
    for (const name of live.flatMap(({ tasks }) => tasks ?? [])) of(name)
    for await (const span of allSpans(store))
      for (const { task, state, jobs } of await store.taskCounts(span)) of(task)[state] += jobs
    return [...counts]
      .map(([name, jobs]) => ({
        name,
        jobs,
        workers: live.filter(({ tasks }) => tasks === null || tasks.includes(name)).length,
      }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }
}

function none(): Record<JobState, number> {
  return Object.fromEntries(STATES.map((state) => [state, 0])) as Record<JobState, number>
}
