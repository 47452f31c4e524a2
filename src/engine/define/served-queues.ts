import type { Clock } from '../../base/clock.ts'
import type { Logger } from '../../base/logger.ts'
import type { UnknownKind } from '../../store/contract/known-tasks.ts'
import type { Store } from '../../store/contract/store.ts'
import type { EngineSettings } from './options.ts'
import type { TaskDefinition } from './task.ts'

/** The engine's parts that the watch over queues uses. */
export interface ServedQueuesOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly store: () => Promise<Store>
}

/** The shortest time until a queue that had a worker is checked again. */
const ASK_AGAIN_MS = 60_000
/** Bounds the remembered queues, since callers choose their names. */
const REMEMBERED = 10_000

/**
 * Warns once of each queue with stored jobs and no live worker, and of each task that no worker lists. No caller waits
 * for the answer.
 */
export class ServedQueues {
  readonly #options: ServedQueuesOptions
  /** The next check of each queue, in ms; never, once it was warned of. */
  readonly #askAt = new Map<string, number>()

  readonly #unknown = new Set<string>()

  constructor(options: ServedQueuesOptions) {
    this.#options = options
  }

  /** Handles jobs, met by a claim, whose tasks no live worker lists. */
  unknown(kinds: readonly UnknownKind[]): void {
    for (const { queue, task } of kinds) {
      const kind = `${queue} ${task}`
      if (this.#unknown.has(kind) || this.#unknown.size >= REMEMBERED) continue
      this.#unknown.add(kind)
      this.#options.logger.warn(
        { task, queue },
        `no live worker lists task ${task}: its jobs on queue ${queue} wait until one does, and do not delay others`,
      )
    }
  }

  /** Handles the queues of stored jobs. */
  enqueued(jobs: readonly { readonly queue: string }[]): void {
    const nowMs = this.#options.clock.now()
    let unchecked: Set<string> | null = null
    let last: string | null = null
    for (const { queue } of jobs) {
      if (queue === last) continue
      last = queue
      if ((this.#askAt.get(queue) ?? 0) > nowMs) continue
      if (this.#askAt.size >= REMEMBERED) this.#askAt.clear()
      this.#askAt.set(queue, nowMs + ASK_AGAIN_MS)
      unchecked = (unchecked ?? new Set()).add(queue)
    }
    if (unchecked) void this.#ask(unchecked)
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
      logger.debug({ err: error }, 'the workers of a queue could not be read')
    }
  }
}

/** Warns of each task whose jobs are in a queue that this engine does not serve. */
export function warnUnserved(
  tasks: Iterable<TaskDefinition>,
  { queues, logger }: Pick<EngineSettings, 'queues' | 'logger'>,
): void {
  const served = new Set(queues.map(({ queue }) => queue))
  for (const { name, queue } of tasks)
    if (!served.has(queue))
      logger.warn(
        { task: name, queue },
        `task ${name} uses queue ${queue}, which this engine does not serve: add ${queue} to queues, or serve it in another process`,
      )
}
