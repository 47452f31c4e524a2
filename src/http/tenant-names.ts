import type { Clock } from '../base/clock.ts'
import type { Remote } from '../remote/remote.ts'
import type { Named } from '../store/contract/queues.ts'
import type { Bounds } from './bounds.ts'
import { Refusal } from './refusal.ts'
import { splitName } from './tenant.ts'

/** A reserved name counts for this long, stored or not: by then its request has ended. */
const RESERVED_MS = 30_000
/** The most tenants kept in memory. */
const PLACES_AT_MOST = 10_000

/** The names of one kind and tenant. */
interface Place {
  /** Names that are stored and never go. */
  readonly known: Set<string>
  /** Names reserved for requests, with the end of each reservation. */
  readonly reserved: Map<string, number>
  /** Ends when all earlier requests have been answered. */
  turn: Promise<void>
}

/**
 * Bounds the limits, schedules and queues of a tenant. A request reserves its names before any write; stored names
 * always pass. Concurrent requests of one process are counted in turn. Servers that share a store can exceed a bound
 * together, by the names that they admit at the same moment.
 */
export class TenantNames {
  readonly #remote: Remote
  readonly #clock: Clock
  readonly #bounds: Required<Bounds>
  readonly #places = new Map<string, Place>()

  constructor(remote: Remote, clock: Clock, bounds: Required<Bounds>) {
    this.#remote = remote
    this.#clock = clock
    this.#bounds = bounds
  }

  /**
   * Reserves names for a tenant, all or none. @param stored the stored names @throws {Refusal} 422 if there are too
   * many
   */
  async admit(kind: Named, tenant: string, stored: Iterable<string>): Promise<void> {
    const place = this.#placeOf(kind, tenant)
    const fresh: string[] = []
    for (const name of stored) if (!place.known.has(name) && !fresh.includes(name)) fresh.push(name)
    if (fresh.length === 0) return
    const admitted = place.turn.then(() => this.#ask(kind, tenant, place, fresh))
    place.turn = admitted.catch(() => undefined)
    return admitted
  }

  /** Forgets all names after the store was emptied. */
  clear(): void {
    this.#places.clear()
  }

  async #ask(kind: Named, tenant: string, place: Place, asked: readonly string[]): Promise<void> {
    const bound = this.#bounds[kind]
    const nowMs = this.#clock.now()
    for (const [name, untilMs] of place.reserved) if (untilMs <= nowMs) place.reserved.delete(name)
    // An earlier request has asked for the same names: hundreds that begin together take one turn, not one each.
    const fresh = asked.filter((name) => !place.known.has(name) && !place.reserved.has(name))
    if (fresh.length === 0) return
    const store = await this.#remote.store()
    const { total, among } = await store.names(kind, tenant, [...fresh, ...place.reserved.keys()], bound)
    const there = new Set(among)
    for (const name of there) {
      place.reserved.delete(name)
      // A schedule may be deleted, and only new limits are checked.
      if (kind === 'queues' && place.known.size < bound) place.known.add(name)
    }
    const coming = fresh.filter((name) => !there.has(name))
    if (coming.length > 0 && total + place.reserved.size + coming.length > bound)
      throw tooMany(kind, bound, splitName(coming[0] as string).name)
    for (const name of coming) place.reserved.set(name, nowMs + RESERVED_MS)
  }

  #placeOf(kind: Named, tenant: string): Place {
    const id = `${kind} ${tenant}`
    const known = this.#places.get(id)
    if (known) return known
    if (this.#places.size >= PLACES_AT_MOST)
      for (const [each, { reserved }] of this.#places) if (reserved.size === 0) this.#places.delete(each)
    const place: Place = { known: new Set(), reserved: new Map(), turn: Promise.resolve() }
    this.#places.set(id, place)
    return place
  }
}

function tooMany(kind: Named, bound: number, name: string): Refusal {
  const have = `All ${bound} ${kind} are in use`
  return new Refusal(422, 'x_quota_exceeded', `${have}, so ${name} cannot be added. Nothing was written.`, {
    type: 'validation_error',
    details: { resource: kind, bound },
    hint:
      kind === 'schedules'
        ? 'Delete a schedule first, or raise bounds.schedules in the configuration of the server.'
        : `Use an existing one, or raise bounds.${kind} in the configuration of the server.`,
  })
}
