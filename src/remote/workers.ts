import type { Directive, Registration } from '../store/contract/workers.ts'
import type { Store } from '../store/contract/store.ts'
import type { RemoteFetch } from './claims.ts'

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
  /** By worker: until when each of its open fetches lets it live. */
  readonly #lives = new Map<string, Set<{ readonly untilUs: number }>>()

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
    const wantedUs = this.#aliveUntil(name, nowUs)
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

  /** Runs a fetch. If its client goes, its worker is silent from then on, except for its other fetches. */
  async during<T>(store: Store, { worker, waitMs, signal }: RemoteFetch, run: () => Promise<T>): Promise<T> {
    const life = { untilUs: store.nowUs() + waitMs * 1000 + ALIVE_US }
    const lives = this.#lives.get(worker) ?? new Set()
    this.#lives.set(worker, lives.add(life))
    const got = await run().finally(() => {
      lives.delete(life)
      if (lives.size === 0) this.#lives.delete(worker)
    })
    if (signal?.aborted) await this.#hangUp(store, worker)
    return got
  }

  async #hangUp(store: Store, name: string): Promise<void> {
    const known = this.#known.get(name)
    const nowUs = store.nowUs()
    const aliveUntilUs = this.#aliveUntil(name, nowUs)
    if (!known || known.aliveUntilUs <= aliveUntilUs) return
    this.#known.set(name, { ...known, aliveUntilUs })
    await store.registerWorker({ name, queues: [], aliveUs: aliveUntilUs - nowUs, about: null })
  }

  /** Until when a worker lives that calls now and has its open fetches. */
  #aliveUntil(name: string, nowUs: number): number {
    return Math.max(nowUs + ALIVE_US, ...[...(this.#lives.get(name) ?? [])].map(({ untilUs }) => untilUs))
  }

  clear(): void {
    this.#known.clear()
  }

  forget(name: string): void {
    this.#known.delete(name)
  }
}
