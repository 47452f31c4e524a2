import type { SqliteConnection } from '../../database/sqlite.ts'
import { type Ageing, changePace, NO_AGEING } from '../../policy/admission/ageing.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { OverrideEvent } from '../../policy/limits/override.ts'
import { type DefinitionEvent, Timeline } from '../../policy/limits/timeline.ts'
import type { SetAside } from '../contract/set-aside.ts'
import { isObject } from '../shared/set-aside.ts'
import { type DefinitionRow, type OverrideRow, timelinesOf } from '../shared/timelines.ts'

const UNDEFINED = new Timeline([])

/** The limits with all their changes, and the pace at which priorities age, as this process remembers them until somebody changes one. */
export class Policies {
  readonly #db: SqliteConnection
  #timelines = new Map<string, Timeline>()
  #aside: readonly SetAside[] = []
  #generation = -1
  #nextEndUs = Infinity
  #ageing: Ageing = NO_AGEING

  constructor(db: SqliteConnection) {
    this.#db = db
  }

  /** Reads the limits again if another process, or a transaction that was rolled back, has changed them. */
  refresh(): void {
    const generation = this.#db.get<[number]>(`SELECT value FROM store WHERE name = 'limits'`)?.[0] ?? 0
    if (generation === this.#generation) return
    this.#generation = generation
    const definitions = this.#db.all<DefinitionRow>('SELECT name, revision, policy, version, since FROM limits')
    const overrides = this.#db.all<OverrideRow>(
      'SELECT name, revision, kind, key, change, since, until, author, reason FROM overrides',
    )
    const { timelines, aside } = timelinesOf(definitions, overrides)
    this.#timelines = timelines
    this.#aside = aside
    this.#findNextEnd()
    const ageing = this.#db.get<[string]>(`SELECT value FROM store WHERE name = 'ageing'`)?.[0]
    this.#ageing = ageing !== undefined && isObject(ageing) ? (JSON.parse(ageing) as Ageing) : NO_AGEING
  }

  /** What was remembered may have been rolled back. */
  forget(): void {
    this.#generation = -1
  }

  /** All changes of a limit; none of one that nobody has defined. */
  timeline(name: string): Timeline {
    return this.#timelines.get(name) ?? UNDEFINED
  }

  /** What holds for one key of a limit; null: the limit is not defined. */
  policy(name: string, key: string): LimitPolicy | null {
    return this.timeline(name).at(key).policy
  }

  names(): string[] {
    return [...this.#timelines.keys()].sort()
  }

  /** When the next override or pause of any limit ends by itself; Infinity: none does. */
  get nextEndUs(): number {
    return this.#nextEndUs
  }

  /** What could not be read of them. */
  get aside(): readonly SetAside[] {
    return this.#aside
  }

  get ageing(): Ageing {
    return this.#ageing
  }

  /** Sets the pace at which priorities age from now on; null: they age no more. */
  age(everyUs: number | null, nowUs: number): void {
    if (this.#ageing.everyUs === everyUs) return
    const ageing = changePace(this.#ageing, everyUs, nowUs)
    this.#db.run(
      `INSERT INTO store (name, value) VALUES ('ageing', ?1) ON CONFLICT DO UPDATE SET value = ?1`,
      JSON.stringify(ageing),
    )
    this.#bump()
    this.refresh()
  }

  /** Defines a limit, anew or for the first time. */
  define(name: string, policy: LimitPolicy, version: number, nowUs: number): void {
    const revision = this.timeline(name).revision + 1
    this.#db.run(
      'INSERT INTO limits (name, revision, policy, version, since) VALUES (?, ?, ?, ?, ?)',
      name,
      revision,
      JSON.stringify(policy),
      version,
      nowUs,
    )
    this.#add(name, { kind: 'definition', revision, sinceUs: nowUs, policy, version })
  }

  /** Adds the beginning or the end of an override or a pause. */
  override(name: string, event: Omit<OverrideEvent, 'revision'>): void {
    const revision = this.timeline(name).revision + 1
    this.#db.run(
      'INSERT INTO overrides (name, revision, kind, key, change, since, until, author, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
      name,
      revision,
      event.kind,
      event.key,
      event.change && JSON.stringify(event.change),
      event.sinceUs,
      event.untilUs,
      event.by,
      event.reason,
    )
    this.#add(name, { ...event, revision })
  }

  /** Forgets changes that no bucket has to be carried through any more; answers how many rows went. */
  forgetOverrides(name: string, revisions: readonly number[]): number {
    const gone = this.#db.run(
      'DELETE FROM overrides WHERE name = ? AND revision IN (SELECT value FROM json_each(?))',
      name,
      JSON.stringify(revisions),
    )
    this.#bump()
    this.refresh()
    return gone
  }

  #add(name: string, event: DefinitionEvent | OverrideEvent): void {
    const generation = this.#bump()
    this.#timelines.set(name, this.timeline(name).with(event))
    this.#generation = generation
    this.#findNextEnd()
  }

  #bump(): number {
    const [generation] = this.#db.get<[number]>(
      `INSERT INTO store (name, value) VALUES ('limits', 1) ON CONFLICT DO UPDATE SET value = value + 1 RETURNING value`,
    ) as [number]
    return generation
  }

  #findNextEnd(): void {
    this.#nextEndUs = Infinity
    for (const timeline of this.#timelines.values()) this.#nextEndUs = Math.min(this.#nextEndUs, timeline.nextEndUs)
  }
}
