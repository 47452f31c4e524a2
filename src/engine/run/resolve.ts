import { asError } from '../../base/thrown.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Resolution, Unresolved, UnresolvedJob, UnresolvedKind } from '../../store/contract/unresolved.ts'
import { type EnqueueContext, prepare } from './enqueue.ts'
import type { Reporter } from './report.ts'
import { storedError } from './settle.ts'
import type { TaskDefinition } from '../define/task.ts'
import type { Trouble } from '../../base/trouble.ts'

const AT_ONCE = 500
const A_RESOLUTION = "the resolution of jobs' limits"

/**
 * Resolves the limits of jobs that were stored without their task's code, when a claim finds them. A crash in between
 * changes nothing: the next claim finds them again.
 */
export class Resolver {
  readonly #store: Store
  readonly #tasks: ReadonlyMap<string, TaskDefinition>
  readonly #calls: EnqueueContext
  readonly #trouble: Trouble
  readonly #reporter: Reporter
  readonly #busy = new Map<string, Promise<void>>()
  /** Found again while they were being resolved: later jobs may have been missed. */
  readonly #again = new Set<string>()
  #stopped = false

  constructor(
    store: Store,
    tasks: ReadonlyMap<string, TaskDefinition>,
    calls: EnqueueContext,
    trouble: Trouble,
    reporter: Reporter,
  ) {
    this.#store = store
    this.#tasks = tasks
    this.#calls = calls
    this.#trouble = trouble
    this.#reporter = reporter
  }

  /** Resolves the jobs of tasks that this engine lists. */
  found(kinds: readonly UnresolvedKind[]): void {
    const { unresolved } = this.#store
    if (!unresolved || this.#stopped) return
    for (const kind of kinds) {
      const task = this.#tasks.get(kind.task)
      const name = JSON.stringify([kind.queue, kind.task])
      if (!task) continue
      if (this.#busy.has(name)) {
        this.#again.add(name)
        continue
      }
      const work = this.#resolveAll(unresolved, kind, task, name)
        .then(
          () => this.#trouble.over(A_RESOLUTION),
          (error: unknown) => this.#trouble.failed(A_RESOLUTION, error),
        )
        .finally(() => this.#busy.delete(name))
      this.#busy.set(name, work)
    }
  }

  /** Begins nothing more, and resolves when nothing is in progress. */
  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#busy.values())
  }

  async #resolveAll(unresolved: Unresolved, kind: UnresolvedKind, task: TaskDefinition, name: string): Promise<void> {
    for (let more = true; more && !this.#stopped;) {
      this.#again.delete(name)
      const jobs = await unresolved.list(kind, AT_ONCE)
      const found = await Promise.all(jobs.map((job) => this.#resolve(job, task)))
      const done = new Set(jobs.length > 0 ? await unresolved.resolve(found.map(({ resolution }) => resolution)) : [])
      for (const { resolution, error } of found)
        if (error && done.has(resolution.job.seq)) this.#reporter.unresolvable(resolution.job, error)
      more = (jobs.length === AT_ONCE && done.size > 0) || this.#again.has(name)
    }
  }

  async #resolve(job: UnresolvedJob, task: TaskDefinition): Promise<{ resolution: Resolution; error?: Error }> {
    const { queue, priority } = job
    try {
      const raw: unknown = JSON.parse(job.input)
      const as = await prepare(this.#calls, task, raw === null && !task.schema ? undefined : raw, { queue, priority })
      return { resolution: { job, as } }
    } catch (cause) {
      const error = asError(cause)
      return { resolution: { job, error: storedError(error) }, error }
    }
  }
}
