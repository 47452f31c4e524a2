import type { ChargeName } from '../contract/limiter.ts'

const MOST_KNOWN = 100_000

/** The named corrections of this process. One that is on its way, or was carried out, is not made again. */
export class NamedCharges {
  readonly #known = new Map<string, Promise<void>>()
  readonly #failed = new Map<string, null>()
  readonly #isFinal: (error: unknown) => boolean

  /** @param isFinal whether a correction that failed so can never be made again */
  constructor(isFinal: (error: unknown) => boolean = () => false) {
    this.#isFinal = isFinal
  }

  /** @param charge makes the correction; `again`: an earlier try has failed */
  once(name: ChargeName | undefined, charge: (again: boolean) => Promise<void>): Promise<void> {
    if (!name) return charge(false)
    const { id } = name
    const known = this.#known.get(id)
    if (known) return known
    const charged = charge(this.#failed.has(id))
    note(this.#known, id, charged)
    charged.then(
      () => this.#failed.delete(id),
      (error: unknown) => {
        if (this.#isFinal(error)) return
        this.#known.delete(id)
        note(this.#failed, id, null)
      },
    )
    return charged
  }
}

function note<T>(noted: Map<string, T>, id: string, value: T): void {
  noted.set(id, value)
  const [oldest = id] = noted.keys()
  if (noted.size > MOST_KNOWN) noted.delete(oldest)
}
