import type { Clock } from '../base/clock.ts'
import type { Remote } from '../remote/remote.ts'
import type { Named } from '../store/contract/queues.ts'
import type { Bounds } from './bounds.ts'
import { Refusal } from './refusal.ts'
import { splitName } from './tenant.ts'

/** A reserved name counts for this long, stored or not: by then its request has ended. */
const RESERVED_MS = 30_000
/** The most places kept in memory, beside those with requests or reservations. */
const PLACES_AT_MOST = 10_000

/** A request for names. */
interface NameRequest {
  readonly names: readonly string[]
  readonly resolve: (refusal: Refusal | null) => void
  readonly reject: (error: unknown) => void
}

/** The stored names of a folder: their number, and those among the ones asked for. */
interface Looked {
  readonly total: number
  readonly among: ReadonlySet<string>
}

/** The names of one kind and tenant. */
interface Place {
  /** Stored names, each with the time until which it surely stays. */
  readonly known: Map<string, number>
  /** Names reserved for requests, with the end of each reservation. */
  readonly reserved: Map<string, number>
  /** Requests that the next look at the store answers. */
  readonly waiting: NameRequest[]
  /** The number of requests without an answer. */
  unanswered: number
  /** Ends when all earlier requests have been answered. */
  turn: Promise<void>
}

/** How long a name stays that is stored at the time of a request. A worker's request lets it count for a minute. */
const STAYS_MS: Readonly<Record<Named, number>> = { queues: Infinity, workers: 30_000, limits: 0, schedules: 0 }

/**
 * Bounds the limits, schedules, queues and workers of a tenant. A request reserves its names before any write; stored names
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
    for (const name of stored) if (!this.#isThere(place, name) && !fresh.includes(name)) fresh.push(name)
    if (fresh.length === 0) return
    place.unanswered++
    const refusal = await new Promise<Refusal | null>((resolve, reject) => {
      if (place.waiting.push({ names: fresh, resolve, reject }) > 1) return
      place.turn = place.turn.then(() => this.#answer(kind, tenant, place))
    }).finally(() => place.unanswered--)
    if (refusal) throw refusal
  }

  /** Makes room for another name once a stored one was deleted. */
  forget(kind: Named, tenant: string, stored: string): void {
    const place = this.#places.get(`${kind} ${tenant}`)
    place?.known.delete(stored)
    place?.reserved.delete(stored)
  }

  /** Forgets all names after the store was emptied. */
  clear(): void {
    this.#places.clear()
  }

  /** Answers the requests that wait, each in its turn, after one look at the store. */
  async #answer(kind: Named, tenant: string, place: Place): Promise<void> {
    const asked = place.waiting.splice(0)
    try {
      const found = await this.#look(kind, tenant, place, new Set(asked.flatMap(({ names }) => names)))
      for (const { names, resolve } of asked) resolve(this.#reserve(kind, place, names, found))
    } catch (error) {
      for (const { reject } of asked) reject(error)
    }
  }

  async #look(kind: Named, tenant: string, place: Place, asked: ReadonlySet<string>): Promise<Looked> {
    const bound = this.#bounds[kind]
    const nowMs = this.#clock.now()
    for (const names of [place.reserved, place.known])
      for (const [name, untilMs] of names) if (untilMs <= nowMs) names.delete(name)
    // An earlier request has asked for the same names.
    const fresh = [...asked].filter((name) => !this.#isThere(place, name))
    if (fresh.length === 0) return { total: 0, among: new Set() }
    const store = await this.#remote.store()
    const found = await store.names(kind, tenant, [...fresh, ...place.reserved.keys()], bound)
    for (const name of found.among) {
      place.reserved.delete(name)
      if (STAYS_MS[kind] > 0 && place.known.size < bound) place.known.set(name, nowMs + STAYS_MS[kind])
    }
    return { total: found.total, among: new Set(found.among) }
  }

  /** Reserves names, all or none. Null: they are reserved, or there. */
  #reserve(kind: Named, place: Place, names: readonly string[], { total, among }: Looked): Refusal | null {
    const bound = this.#bounds[kind]
    const coming = names.filter((name) => !among.has(name) && !this.#isThere(place, name))
    if (coming.length > 0 && total + place.reserved.size + coming.length > bound)
      return tooMany(kind, bound, splitName(coming[0] as string).name)
    for (const name of coming) place.reserved.set(name, this.#clock.now() + RESERVED_MS)
    return null
  }

  /** Whether a name is stored, or reserved for an earlier request. */
  #isThere({ known, reserved }: Place, name: string): boolean {
    const nowMs = this.#clock.now()
    return (known.get(name) ?? 0) > nowMs || (reserved.get(name) ?? 0) > nowMs
  }

  /** Whether nothing is lost with a place: the store tells its stored names again. */
  #isIdle({ reserved, unanswered }: Place): boolean {
    const nowMs = this.#clock.now()
    return unanswered === 0 && [...reserved.values()].every((untilMs) => untilMs <= nowMs)
  }

  #placeOf(kind: Named, tenant: string): Place {
    const id = `${kind} ${tenant}`
    const known = this.#places.get(id)
    if (known) return known
    if (this.#places.size >= PLACES_AT_MOST)
      for (const [each, place] of this.#places) if (this.#isIdle(place)) this.#places.delete(each)
    const place: Place = { known: new Map(), reserved: new Map(), waiting: [], unanswered: 0, turn: Promise.resolve() }
    this.#places.set(id, place)
    return place
  }
}

/** The ways to make room for a name, beside a higher bound. */
const ROOM: Readonly<Record<Named, string>> = {
  limits: 'Use an existing one',
  queues: 'Use an existing one',
  schedules: 'Delete a schedule first',
  workers: 'Stop one and wait until it has been silent for a minute, or delete it',
}

function tooMany(kind: Named, bound: number, name: string): Refusal {
  const have = `All ${bound} ${kind} are in use`
  return new Refusal(422, 'x_quota_exceeded', `${have}, so ${name} cannot be added. Nothing was written.`, {
    type: 'validation_error',
    details: { resource: kind, bound },
    hint: `${ROOM[kind]}, or raise bounds.${kind} in the configuration of the server.`,
  })
}
