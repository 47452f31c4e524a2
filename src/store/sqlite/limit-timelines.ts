import type { SqliteConnection } from '../../database/sqlite.ts'
import type { Ageing } from '../../policy/admission/ageing.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { OverrideEvent } from '../../policy/limits/override.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type { SetAside } from '../contract/set-aside.ts'
import { age, bump, define, forget, override, readLimits } from '../shared/limit-changes.ts'
import { readNow } from '../shared/reading.ts'
import type { Sql } from '../shared/sql.ts'
import { Timelines } from '../shared/timelines.ts'
import { sharedSql } from './portable-sql.ts'

const GENERATION = `SELECT value FROM store WHERE name = 'limits'`

/** The limits with all their changes, and the pace at which priorities age, as this process remembers them until somebody changes one. */
export class Policies {
  readonly #db: SqliteConnection
  readonly #sql: Sql
  #limits = new Timelines(-1, new Map())
  #known = false

  constructor(db: SqliteConnection) {
    this.#db = db
    this.#sql = sharedSql(db)
  }

  /** Reads the limits again if another process, or a transaction that was rolled back, has changed them. */
  refresh(): void {
    // Asked at every turn: the shortest way.
    const generation = this.#db.get<[number]>(GENERATION)?.[0] ?? 0
    if (this.#known && generation === this.#limits.generation) return
    this.#limits = readNow(readLimits(this.#sql, generation))
    this.#known = true
  }

  /** What was remembered may have been rolled back. */
  forget(): void {
    this.#known = false
  }

  /** All changes of a limit; none of one that nobody has defined. */
  timeline(name: string): Timeline {
    return this.#limits.timeline(name)
  }

  /** What holds for one key of a limit; null: the limit is not defined. */
  policy(name: string, key: string): LimitPolicy | null {
    return this.#limits.policy(name, key)
  }

  names(): string[] {
    return this.#limits.names()
  }

  /** When the next override or pause of any limit ends by itself; Infinity: none does. */
  get nextEndUs(): number {
    return this.#limits.nextEndUs
  }

  /** What could not be read of them. */
  get aside(): readonly SetAside[] {
    return this.#limits.aside
  }

  get ageing(): Ageing {
    return this.#limits.ageing
  }

  /** Sets the pace at which priorities age from now on; null: they age no more. */
  age(everyUs: number | null, nowUs: number): void {
    if (readNow(age(this.#sql, this.#limits, everyUs, nowUs))) this.#readAgain()
  }

  /** Defines a limit, again or for the first time. */
  define(name: string, policy: LimitPolicy, version: number, nowUs: number): void {
    this.#limits = readNow(define(this.#sql, this.#limits, name, policy, version, nowUs))
  }

  /** Adds the beginning or the end of an override or a pause. */
  override(name: string, event: Omit<OverrideEvent, 'revision'>): void {
    this.#limits = readNow(override(this.#sql, this.#limits, name, event))
  }

  /** Forgets changes that no bucket has to be carried through any more; answers how many rows went. */
  forgetOverrides(name: string, revisions: readonly number[]): number {
    const gone = readNow(forget(this.#sql, name, revisions))
    this.#readAgain()
    return gone
  }

  #readAgain(): void {
    this.#limits = readNow(readLimits(this.#sql, readNow(bump(this.#sql))))
  }
}
