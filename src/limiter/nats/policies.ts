import { Timeline } from '../../policy/limits/timeline.ts'
import { endEvents, kept, type LimitEvent, UNDEFINED } from '../ledger/changes.ts'
import type { Entries } from './kv.ts'

/** The entry of all limits. */
const KEY = 'limits'
/** How often a change is tried again when another process changed a limit meanwhile. */
const TRIES = 50

/** The limits of a namespace, as they were read last. */
export class NatsPolicies {
  readonly #entries: Entries
  #revision = -1
  #writing = ''
  #events: Readonly<Record<string, readonly LimitEvent[]>> = {}
  #timelines = new Map<string, Timeline>()

  constructor(entries: Entries) {
    this.#entries = entries
  }

  timeline(limit: string): Timeline {
    return this.#timelines.get(limit) ?? UNDEFINED
  }

  async read(): Promise<void> {
    const { text, revision, writing } = await this.#entries.get(KEY)
    if (writing === this.#writing) return
    this.#writing = writing
    this.#revision = revision
    this.#events = text === '' ? {} : (JSON.parse(text) as Record<string, LimitEvent[]>)
    this.#timelines = new Map(Object.entries(this.#events).map(([name, events]) => [name, new Timeline(events)]))
  }

  /** Adds changes of limits; it returns the names of the limits that changed. */
  async change(decide: () => ReadonlyMap<string, LimitEvent>): Promise<readonly string[]> {
    for (let tries = 0; tries < TRIES; tries++) {
      await this.read()
      const changes = decide()
      if (changes.size === 0) return []
      if (await this.#write([...changes].map(([name, event]) => [name, [event]]))) return [...changes.keys()]
    }
    throw new Error('the limits are changed by others all the time')
  }

  /** Writes the ends of the overrides and pauses of these limits that are over. */
  async endOverdue(limits: readonly string[], nowUs: number): Promise<boolean> {
    const ends = [...new Set(limits)]
      .map((name) => [name, endEvents(this.timeline(name), nowUs)] as const)
      .filter(([, events]) => events.length > 0)
    if (ends.length === 0) return false
    await this.#write(ends)
    await this.read()
    return true
  }

  async #write(added: readonly (readonly [string, readonly LimitEvent[]])[]): Promise<boolean> {
    const events = Object.fromEntries(
      added.map(([name, more]) => [name, kept([...(this.#events[name] ?? []), ...more])]),
    )
    const text = JSON.stringify({ ...this.#events, ...events })
    const revision = await this.#entries.update(KEY, text, this.#revision)
    if (revision > 0) await this.read()
    return revision > 0
  }
}
