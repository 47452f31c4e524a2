import type { Clock, Timer } from '../../base/clock.ts'

/** The kinds of things that change. */
export const TOPICS = ['jobs', 'limits', 'queues', 'flows', 'schedules', 'workers', 'bulk', 'audit'] as const
/** A kind of things that change. */
export type Topic = (typeof TOPICS)[number]

/** One message: the things that have changed since the one before. */
export interface ChangeMessage {
  readonly id: string
  readonly atMs: number
  /** By topic: the ids, or the stored names, of what has changed; `any`: it may be anything. */
  readonly topics: ReadonlyMap<Topic, 'any' | ReadonlySet<string>>
}

/** At most 4 messages a second. */
const COALESCE_MS = 250
/** A viewer that has missed as many messages reads all again. */
export const MISSED_AT_MOST = 50
const NAMES_AT_MOST = 100

/**
 * The messages for the viewers of one tenant, or of all tenants. Their ids, their number and their times follow from the
 * changes of those viewers' own things, so no tenant learns from them what another one does.
 */
export class ChangeChannel {
  readonly #clock: Clock
  readonly #mark: string
  readonly #listeners = new Set<(message: ChangeMessage) => void>()
  readonly #kept: ChangeMessage[] = []
  #seq = 0
  #topics = new Map<Topic, 'any' | Set<string>>()
  #flush: Timer | null = null

  /** @param tenant null: all tenants */
  constructor(clock: Clock, tenant: string | null) {
    this.#clock = clock
    const born = Math.floor(clock.now()).toString(36)
    // A place in the channel of one tenant is none in that of another.
    this.#mark = tenant === null ? born : `${born}/${tenant}`
  }

  /** The id of the newest message. */
  get latest(): string {
    return `${this.#mark}-${this.#seq}`
  }

  /** It has viewers. */
  get inUse(): boolean {
    return this.#listeners.size > 0
  }

  /** Calls `listener` at every message. Returns a function that stops it. */
  listen(listener: (message: ChangeMessage) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** The messages behind an id; null: it is not known here, or too old. */
  after(id: string): readonly ChangeMessage[] | null {
    const [, mark, seq] = /^(.+)-(\d{1,15})$/s.exec(id) ?? []
    const missed = this.#seq - Number(seq)
    if (mark !== this.#mark || missed < 0 || missed > this.#kept.length) return null
    return this.#kept.slice(this.#kept.length - missed)
  }

  /** Notes a change. @param name undefined: it may be anything of the topic */
  note(topic: Topic, name: string | undefined): void {
    const known = this.#topics.get(topic)
    if (name === undefined) this.#topics.set(topic, 'any')
    else if (known === undefined) this.#topics.set(topic, new Set([name]))
    else if (known !== 'any' && known.add(name).size > NAMES_AT_MOST) this.#topics.set(topic, 'any')
    this.#flush ??= this.#clock.setTimer(() => this.#send(), COALESCE_MS)
    this.#flush.unref?.()
  }

  close(): void {
    this.#flush?.cancel()
    this.#listeners.clear()
  }

  #send(): void {
    this.#flush = null
    this.#seq++
    const message = { id: this.latest, atMs: this.#clock.now(), topics: this.#topics }
    this.#topics = new Map()
    this.#kept.push(message)
    if (this.#kept.length > MISSED_AT_MOST) this.#kept.shift()
    for (const listener of this.#listeners) listener(message)
  }
}
