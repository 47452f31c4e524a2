import type { Directive, Registration } from '../store/contract/workers.ts'
import type { Store } from '../store/contract/store.ts'

interface Known extends Registration {
  readonly queues: string
  readonly tasks: string
  /** The end of its life, as last written. */
  readonly aliveUntilUs: number
}

/** A worker counts as live for this time after its last request, or after the end of that if it waits. */
const ALIVE_US = 60_000_000
const REFRESH_US = 5_000_000
const REMEMBERED = 10_000

/** Remote workers by name, as last written: a fetch writes changes only. */
export class RemoteWorkers {
  readonly #known = new Map<string, Known>()

  /**
   * Registers a worker or extends its registration, at most every 5 s unless its content changes.
   * @param tasks the tasks that it asks for; null: any; absent: unknown
   * @param waitMs the longest time that its request takes
   */
  async register(
    store: Store,
    name: string,
    queues: readonly string[],
    about: string | null,
    tasks?: readonly string[] | null,
    waitMs = 0,
  ): Promise<{ readonly worker: number; readonly directive: Directive }> {
    const known = this.#known.get(name)
    const nowUs = store.nowUs()
    const taskNames = tasks === undefined ? (known?.tasks ?? '') : JSON.stringify(tasks)
    const same = (queues.length === 0 || known?.queues === JSON.stringify(queues)) && known?.tasks === taskNames
    const wantedUs = nowUs + waitMs * 1000 + ALIVE_US
    const aliveUntilUs = Math.max(wantedUs, known?.aliveUntilUs ?? 0)
    if (known && same && about === null && known.aliveUntilUs > wantedUs - REFRESH_US) return known
    const registration = await store.registerWorker({
      name,
      queues,
      aliveUs: aliveUntilUs - nowUs,
      about,
      ...(tasks !== undefined && { tasks }),
    })
    const kept = queues.length === 0 && known ? known.queues : JSON.stringify(queues)
    if (this.#known.size >= REMEMBERED) this.#known.clear()
    this.#known.set(name, { ...registration, queues: kept, tasks: taskNames, aliveUntilUs })
    return registration
  }

  /** Ends the wait of a worker whose client has gone: from now on it is silent. */
  async hangUp(store: Store, name: string): Promise<void> {
    const known = this.#known.get(name)
    if (!known || known.aliveUntilUs <= store.nowUs() + ALIVE_US) return
    await store.registerWorker({ name, queues: [], aliveUs: ALIVE_US, about: null })
    this.#known.delete(name)
  }

  clear(): void {
    this.#known.clear()
  }

  forget(name: string): void {
    this.#known.delete(name)
  }
}
