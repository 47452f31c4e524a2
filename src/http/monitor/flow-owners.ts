import type { Remote } from '../../remote/remote.ts'

const KNOWN_AT_MOST = 10_000

/** Finds the tenants of flows, whose events have no owner: one read of the store for each flow. */
export class FlowOwners {
  readonly #remote: Remote
  /** The tenant of each flow; null: it has none that could see it. */
  readonly #known = new Map<string, Promise<string | null>>()

  constructor(remote: Remote) {
    this.#remote = remote
  }

  /** The tenant of a flow; null: no tenant sees the flow, or the store cannot tell. */
  of(id: string): Promise<string | null> {
    const known = this.#known.get(id)
    if (known) return known
    if (this.#known.size >= KNOWN_AT_MOST) this.#known.clear()
    const found = this.#read(id)
    this.#known.set(id, found)
    found.catch(() => this.#known.delete(id))
    return found
  }

  async #read(id: string): Promise<string | null> {
    const flow = await (await this.#remote.store()).getFlow(id)
    if (!flow) this.#known.delete(id)
    return flow?.owner?.tenant ?? null
  }
}
