import type { KnownTasks } from '../contract/known-tasks.ts'

/** The most lanes for which this process remembers the claimers to let go first. */
const REMEMBERED = 10_000

/** Jobs of other workers' tasks that this process's claimers found before their own, by lane, with the time. */
export class Yields {
  readonly #since = new Map<string, { readonly seq: number; readonly us: number }>()

  since(known: KnownTasks, lane: number, seq: number, nowUs: number): number {
    const place = `${known.name} ${lane}`
    const found = this.#since.get(place)
    if (found?.seq === seq) return found.us
    if (this.#since.size >= REMEMBERED) this.#since.clear()
    this.#since.set(place, { seq, us: nowUs })
    return nowUs
  }
}
