import type { Clock } from '../base/clock.ts'
import { waitLists } from '../engine/api/wait-lists.ts'
import type { Remote } from '../remote/remote.ts'
import type { ThrottledRow } from '../store/contract/waits.ts'
import type { QueueCount } from '../store/contract/queues.ts'

/** A count that took at most this time is never cached. */
const QUICK_US = 5000
/** A slower count is cached for this many times its duration, so counting takes at most a tenth of the time. */
const CACHE_FACTOR = 9
const KEPT_AT_MOST = 1000
const MOST_ROWS = 1_000_000

interface Kept {
  readonly rows: readonly QueueCount[]
  readonly untilUs: number
}

/**
 * Counts of jobs for clients that poll. A store of millions takes long to count, and an embedded one does nothing else
 * meanwhile.
 */
export class QueueCounts {
  readonly #remote: Remote
  readonly #clock: Clock
  readonly #cacheFactor: number
  readonly #kept = new Map<string, Kept>()
  #throttled: { readonly byQueue: ReadonlyMap<string, number>; readonly untilUs: number } | null = null

  /** @param cacheFactor how many times the duration of a count its answer is kept; 0 counts each time. */
  constructor(remote: Remote, clock: Clock, cacheFactor: number = CACHE_FACTOR) {
    this.#remote = remote
    this.#clock = clock
    this.#cacheFactor = cacheFactor
  }

  /** The jobs of each queue that wait for a budget; cached if counting takes long. */
  async throttled(): Promise<ReadonlyMap<string, number>> {
    const beganUs = this.#clock.monotonicUs()
    if (this.#throttled && beganUs < this.#throttled.untilUs) return this.#throttled.byQueue
    const store = await this.#remote.store()
    const { rows } = await waitLists(store, MOST_ROWS)
    const endedUs = this.#clock.monotonicUs()
    const byQueue = sumsOf(rows)
    this.#throttled = { byQueue, untilUs: endedUs + this.#cacheFactor * Math.max(0, endedUs - beganUs - QUICK_US) }
    return byQueue
  }

  /** Jobs by queue and state, of one queue or of all: exact if counting is quick, otherwise cached. */
  async of(queue?: string): Promise<readonly QueueCount[]> {
    const name = queue ?? ''
    const store = await this.#remote.store()
    const beganUs = this.#clock.monotonicUs()
    const kept = this.#kept.get(name)
    if (kept && beganUs < kept.untilUs) return kept.rows
    const rows = await store.queueCounts(queue)
    const endedUs = this.#clock.monotonicUs()
    this.#kept.delete(name)
    if (endedUs - beganUs <= QUICK_US) return rows
    if (this.#kept.size >= KEPT_AT_MOST) this.#kept.clear()
    this.#kept.set(name, { rows, untilUs: endedUs + this.#cacheFactor * (endedUs - beganUs) })
    return rows
  }
}

/** A job with a budget per worker is in the wait lists of all workers, but counts once. */
function sumsOf(rows: readonly ThrottledRow[]): Map<string, number> {
  const sums = new Map<string, number>()
  const own = new Map<string, number>()
  for (const { queue, limit, key, worker, waiting } of rows) {
    const list = JSON.stringify([queue, limit, key])
    const counted = worker === undefined ? 0 : (own.get(list) ?? 0)
    if (worker !== undefined) own.set(list, Math.max(counted, waiting))
    sums.set(queue, (sums.get(queue) ?? 0) + Math.max(0, waiting - counted))
  }
  return sums
}
