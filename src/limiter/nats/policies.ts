import { Timeline } from '../../policy/limits/timeline.ts'
import { kept, type LimitEvent } from '../ledger/changes.ts'
import { type AddedEvents, StoredPolicies } from '../ledger/stored-policies.ts'
import type { Entries } from './kv.ts'

/** The entry of all limits. */
const KEY = 'limits'

/** The limits of a namespace in one entry. */
export class NatsPolicies extends StoredPolicies {
  readonly #entries: Entries
  #revision = -1
  #writing = ''
  #events: ReadonlyMap<string, readonly LimitEvent[]> = new Map()

  constructor(entries: Entries) {
    super()
    this.#entries = entries
  }

  override async read(): Promise<void> {
    const { text, revision, writing } = await this.#entries.get(KEY)
    if (writing === this.#writing) return
    this.#writing = writing
    this.#revision = revision
    this.#events = new Map(text === '' ? [] : Object.entries(JSON.parse(text) as Record<string, LimitEvent[]>))
    this.timelines = new Map([...this.#events].map(([name, events]) => [name, new Timeline(events)]))
  }

  protected override async write(added: AddedEvents): Promise<boolean> {
    const events = added.map(([name, more]) => [name, kept([...(this.#events.get(name) ?? []), ...more])] as const)
    const text = JSON.stringify(Object.fromEntries([...this.#events, ...events]))
    const revision = await this.#entries.update(KEY, text, this.#revision)
    if (revision > 0) await this.read()
    return revision > 0
  }
}
