/**
 * The causes of a wakeup:
 * - `work`: a job may start that could not before;
 * - `storing`: jobs of this process are about to be stored, and a claim made now shares their commit;
 * - `permits`: a run of a remote worker was settled, and its permits returned;
 * - `paid`: a claim for a remote worker has left paid starts, which one of this process may need;
 * - `settled`: a run of this process was settled, and the claim that fills its slot is already running;
 * - `others`: the time of a wait list has changed in which calls of plain code may stand;
 * - `delayed`: something was stored that comes due by itself;
 * - `schedule`: a schedule may be due.
 */
export type WakeupReason = 'work' | 'storing' | 'permits' | 'paid' | 'settled' | 'others' | 'delayed' | 'schedule'

/** Wakes the dispatcher of one engine, and the remote fetches that wait. */
export class Wakeup {
  readonly #subscribers = new Set<(reason: WakeupReason) => void>()

  /** Calls `subscriber` at every notification. Returns a function that stops it. */
  subscribe(subscriber: (reason: WakeupReason) => void): () => void {
    this.#subscribers.add(subscriber)
    return () => this.#subscribers.delete(subscriber)
  }

  notify(reason: WakeupReason): void {
    for (const subscriber of this.#subscribers) subscriber(reason)
  }
}
