import type { SqliteConnection } from '../../database/sqlite.ts'
import { readLimits } from '../shared/limit-changes.ts'
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

  /** The limits as they were last read. */
  get current(): Timelines {
    return this.#limits
  }

  /** Keeps limits that this transaction has changed. */
  keep(limits: Timelines): void {
    this.#limits = limits
  }
}
