import type { Clock } from '../../base/clock.ts'
import type { Logger } from '../../base/logger.ts'
import type { UnknownKind } from '../../store/contract/known-tasks.ts'
import type { Store } from '../../store/contract/store.ts'
import type { EngineSettings } from './options.ts'
import type { TaskDefinition } from './task.ts'

/** What watching over queues needs. */
export interface ServedQueuesOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly store: () => Promise<Store>
}

/** A queue that had a worker is asked about again so much later at the earliest. */
const ASK_AGAIN_MS = 60_000
/** Callers name queues: only so many are remembered. */
const REMEMBERED = 10_000

/** Warns, once each, of queues that jobs are stored for and no live worker serves, and of tasks that none knows. Nothing waits for the answer. */
export class ServedQueues {
  readonly #options: ServedQueuesOptions
  /** When each queue may be asked about again, in ms; never, once it was warned of. */
  readonly #askAt = new Map<string, number>()

  readonly #unknown = new Set<string>()

  constructor(options: ServedQueuesOptions) {
    this.#options = options
  }

  /** A claim has met jobs whose tasks no live worker knows. */
  unknown(kinds: readonly UnknownKind[]): void {
    for (const { queue, task } of kinds) {
      const kind = `${queue} ${task}`
      if (this.#unknown.has(kind) || this.#unknown.size >= REMEMBERED) continue
      this.#unknown.add(kind)
      this.#options.logger.warn(
        { task, queue },
        `no live worker knows task ${task}: its jobs on queue ${queue} wait, and hold up no others, until one does`,
      )
    }
  }

  /** Jobs were stored for these queues. */
  enqueued(jobs: readonly { readonly queue: string }[]): void {
    const nowMs = this.#options.clock.now()
    let asked: Set<string> | null = null
    let last: string | null = null
    for (const { queue } of jobs) {
      if (queue === last) continue
      last = queue
      if ((this.#askAt.get(queue) ?? 0) > nowMs) continue
      if (this.#askAt.size >= REMEMBERED) this.#askAt.clear()
      this.#askAt.set(queue, nowMs + ASK_AGAIN_MS)
      asked = (asked ?? new Set()).add(queue)
    }
    if (asked) void this.#ask(asked)
  }

  async #ask(queues: ReadonlySet<string>): Promise<void> {
    const { logger, store } = this.#options
    try {
      const workers = await (await store()).workers()
      for (const queue of queues) {
        if (workers.some((each) => each.alive && each.queues.includes(queue))) continue
        this.#askAt.set(queue, Infinity)
        logger.warn({ queue }, `no live worker serves queue ${queue}: its jobs wait until one does`)
      }
    } catch (error) {
      logger.debug({ err: error }, 'it could not be found out who serves a queue')
    }
  }
}

/** Warns of each task whose jobs go to a queue that this engine does not serve. */
export function warnUnserved(
  tasks: Iterable<TaskDefinition>,
  { queues, logger }: Pick<EngineSettings, 'queues' | 'logger'>,
): void {
  const served = new Set(queues.map(({ queue }) => queue))
  for (const { name, queue } of tasks)
    if (!served.has(queue))
      logger.warn(
        { task: name, queue },
        `task ${name} goes to queue ${queue}, which this engine does not serve: add ${queue} to queues, or have another process serve it`,
      )
}
