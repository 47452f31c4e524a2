/**
 * What has changed, for those who look for work:
 * - `work`: a job may start that could not before;
 * - `permits`: a run of a remote worker was settled, and its permits came back;
 * - `settled`: a run of this process was settled; the claim that fills its slot again is on its way;
 * - `delayed`: something was stored that comes due by itself;
 * - `schedule`: a schedule may be due.
 */
export type WakeupReason = 'work' | 'permits' | 'settled' | 'delayed' | 'schedule'

/** Wakes those of one engine who look for work: its dispatcher, and the remote fetches that wait. */
export class Wakeup {
  readonly #subscribers = new Set<(reason: WakeupReason) => void>()

  /** Calls `subscriber` at every notification; returns how to stop that. */
  subscribe(subscriber: (reason: WakeupReason) => void): () => void {
    this.#subscribers.add(subscriber)
    return () => this.#subscribers.delete(subscriber)
  }

  notify(reason: WakeupReason): void {
    for (const subscriber of this.#subscribers) subscriber(reason)
  }
}
