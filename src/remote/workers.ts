import type { Directive, Registration } from '../store/contract/workers.ts'
import type { Store } from '../store/contract/store.ts'

interface Known extends Registration {
  readonly queues: string
  readonly tasks: string
  readonly refreshedUs: number
}

/** A worker counts as live for this time after its last request. */
const ALIVE_US = 60_000_000
const REFRESH_US = 5_000_000
const REMEMBERED = 10_000

/** Remote workers by name, as last written: a fetch writes changes only. */
export class RemoteWorkers {
  readonly #known = new Map<string, Known>()

  /**
   * Registers a worker or extends its registration, at most every 5 s unless its content changes.
   * @param tasks the tasks that it asks for; null: any; absent: unknown
   */
  async register(
    store: Store,
    name: string,
    queues: readonly string[],
    about: string | null,
    tasks?: readonly string[] | null,
  ): Promise<{ readonly worker: number; readonly directive: Directive }> {
    const known = this.#known.get(name)
    const nowUs = store.nowUs()
    const taskNames = tasks === undefined ? (known?.tasks ?? '') : JSON.stringify(tasks)
    const same = (queues.length === 0 || known?.queues === JSON.stringify(queues)) && known?.tasks === taskNames
    if (known && same && about === null && nowUs - known.refreshedUs < REFRESH_US) return known
    const registration = await store.registerWorker({
      name,
      queues,
      aliveUs: ALIVE_US,
      about,
      ...(tasks !== undefined && { tasks }),
    })
    const kept = queues.length === 0 && known ? known.queues : JSON.stringify(queues)
    if (this.#known.size >= REMEMBERED) this.#known.clear()
    this.#known.set(name, { ...registration, queues: kept, tasks: taskNames, refreshedUs: nowUs })
    return registration
  }

  clear(): void {
    this.#known.clear()
  }

  forget(name: string): void {
    this.#known.delete(name)
  }
}
