import type { KnownTasks } from '../contract/known-tasks.ts'

/** For how many lanes it is remembered whom this process lets go first. */
const REMEMBERED = 10_000

/** Which jobs of other workers' tasks the claimers of this process have found before their own, by lane, and since when. */
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
