import type { Directive, Enlisted } from '../store/outside.ts'
import type { Store } from '../store/store.ts'

interface Known extends Enlisted {
  readonly queues: string
  readonly refreshedUs: number
}

/** A worker that is heard of within this time counts as at work. */
const ALIVE_US = 60_000_000
const REFRESH_US = 5_000_000
const REMEMBERED = 10_000

/** Outside workers by name, as they were last written: a fetch need not write what has not changed. */
export class RemoteWorkers {
  readonly #known = new Map<string, Known>()

  /** Registers a worker or extends its registration, at most every 5 s unless it says something new. */
  async enlist(
    store: Store,
    name: string,
    queues: readonly string[],
    about: string | null,
  ): Promise<{ readonly worker: number; readonly directive: Directive }> {
    const known = this.#known.get(name)
    const nowUs = store.nowUs()
    const same = queues.length === 0 || known?.queues === JSON.stringify(queues)
    if (known && same && about === null && nowUs - known.refreshedUs < REFRESH_US) return known
    const enlisted = await store.outside.enlist({ name, queues, aliveUs: ALIVE_US, about })
    const kept = queues.length === 0 && known ? known.queues : JSON.stringify(queues)
    if (this.#known.size >= REMEMBERED) this.#known.clear()
    this.#known.set(name, { ...enlisted, queues: kept, refreshedUs: nowUs })
    return enlisted
  }

  clear(): void {
    this.#known.clear()
  }

  forget(name: string): void {
    this.#known.delete(name)
  }
}
