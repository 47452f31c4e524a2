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
  #events: Readonly<Record<string, readonly LimitEvent[]>> = {}

  constructor(entries: Entries) {
    super()
    this.#entries = entries
  }

  override async read(): Promise<void> {
    const { text, revision, writing } = await this.#entries.get(KEY)
    if (writing === this.#writing) return
    this.#writing = writing
    this.#revision = revision
    this.#events = text === '' ? {} : (JSON.parse(text) as Record<string, LimitEvent[]>)
    this.timelines = new Map(Object.entries(this.#events).map(([name, events]) => [name, new Timeline(events)]))
  }

  protected override async write(added: AddedEvents): Promise<boolean> {
    const events = Object.fromEntries(
      added.map(([name, more]) => [name, kept([...(this.#events[name] ?? []), ...more])]),
    )
    const text = JSON.stringify({ ...this.#events, ...events })
    const revision = await this.#entries.update(KEY, text, this.#revision)
    if (revision > 0) await this.read()
    return revision > 0
  }
}
