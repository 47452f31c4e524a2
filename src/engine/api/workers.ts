import { objectIn } from '../../base/json-value.ts'
import type { JobDetails } from '../../store/contract/remote-jobs.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Directive, WorkerRecord } from '../../store/contract/workers.ts'
import { dateOf } from './job-view.ts'

/** A process that runs jobs: an engine, or a worker in any language at a server. */
export interface WorkerView {
  readonly id: number
  /** The name of a server's worker; null: an engine. */
  readonly name: string | null
  /** Null: it has not said so. */
  readonly host: string | null
  readonly pid: number | null
  readonly queues: readonly string[]
  /** The tasks whose jobs it takes; null: any. */
  readonly tasks: readonly string[] | null
  /** The most jobs that it runs at once; null: it has not said so. */
  readonly slots: number | null
  /** Whether it goes on, takes no more jobs, or ends; an engine goes on. */
  readonly directive: Directive
  readonly alive: boolean
  readonly aliveUntil: Date
  readonly joinedAt: Date
  /** How many jobs it runs. */
  readonly active: number
  /** Its running jobs, the longest first; at most 1,000 over all workers. */
  readonly running: readonly RunningJob[]
}

/** A job that a worker runs. */
export interface RunningJob {
  readonly id: string
  readonly task: string
  readonly queue: string
  /** 1 on the first run. */
  readonly attempt: number
  readonly since: Date
}

/** The description that a worker gives of itself, as JSON in the store. */
interface About {
  readonly hostname?: string
  readonly pid?: number
  readonly concurrency?: number
}

const MOST_RUNNING = 1_000

/** The workers of the store. */
export class WorkersApi {
  readonly #store: () => Promise<Store>

  constructor({ store }: { readonly store: () => Promise<Store> }) {
    this.#store = store
  }

  /** All workers on record, in the order in which they joined, with what they run. */
  async list(): Promise<WorkerView[]> {
    const store = await this.#store()
    const [workers, { jobs }] = [
      await store.workers(),
      await store.findDetails({ states: ['active'], offset: 0, limit: MOST_RUNNING, oldestFirst: true }),
    ]
    const byWorker = Map.groupBy(jobs, ({ worker }) => worker)
    return workers.map((each) => viewOf(each, byWorker.get(each.worker) ?? []))
  }
}

function viewOf(record: WorkerRecord, jobs: readonly JobDetails[]): WorkerView {
  const { hostname, pid, concurrency } = objectIn<About>(record.about)
  const running = jobs.map(({ id, task, queue, attempt, startedUs, sinceUs }) => ({
    id,
    task,
    queue,
    attempt,
    since: dateOf(startedUs ?? sinceUs),
  }))
  return {
    id: record.worker,
    name: record.name,
    host: typeof hostname === 'string' ? hostname : null,
    pid: typeof pid === 'number' ? pid : null,
    queues: record.queues,
    tasks: record.tasks,
    slots: typeof concurrency === 'number' ? concurrency : null,
    directive: record.directive,
    alive: record.alive,
    aliveUntil: dateOf(record.aliveUntilUs),
    joinedAt: dateOf(record.joinedUs),
    active: record.active,
    running: running.toSorted((a, b) => a.since.getTime() - b.since.getTime()),
  }
}
