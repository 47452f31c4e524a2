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

/** The limits with all their changes, and the pace of ageing. This process caches them until one changes. */
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
    // Every phase asks this, so the statement is short.
    const generation = this.#db.get<[number]>(GENERATION)?.[0] ?? 0
    if (this.#known && generation === this.#limits.generation) return
    this.#limits = readNow(readLimits(this.#sql, generation))
    this.#known = true
  }

  /** Drops the cache, which may hold changes that were rolled back. */
  forget(): void {
    this.#known = false
  }

  /** All changes of a limit; empty if it was never defined. */
  timeline(name: string): Timeline {
    return this.#limits.timeline(name)
  }

  /** The policy in force for one key of a limit; null: the limit is not defined. */
  policy(name: string, key: string): LimitPolicy | null {
    return this.#limits.policy(name, key)
  }

  names(): string[] {
    return this.#limits.names()
  }

  /** The next automatic end of an override or pause of any limit; Infinity: there is none. */
  get nextEndUs(): number {
    return this.#limits.nextEndUs
  }

  /** The unreadable parts of the limits. */
  get aside(): readonly SetAside[] {
    return this.#limits.aside
  }

  get ageing(): Ageing {
    return this.#limits.ageing
  }

  /** Sets the pace of ageing from now on; null: priorities do not age. */
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

  /** Forgets changes that no bucket needs any more; returns the number of rows deleted. */
  forgetOverrides(name: string, revisions: readonly number[]): number {
    const gone = readNow(forget(this.#sql, name, revisions))
    this.#readAgain()
    return gone
  }

  #readAgain(): void {
    this.#limits = readNow(readLimits(this.#sql, readNow(bump(this.#sql))))
  }
}
