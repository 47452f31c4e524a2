import type { SQLInputValue, StatementSync } from 'node:sqlite'
import { afterEach, beforeEach } from 'vitest'
import { SqliteConnection } from '../../src/database/sqlite.ts'

/** The statements that stores ran, as they ran them: an observer, nothing is changed by it. */
export class StatementLog {
  readonly texts: string[] = []

  /** Forgets what was seen. */
  clear(): void {
    this.texts.length = 0
  }

  /** Distinct texts. */
  get distinct(): string[] {
    return [...new Set(this.texts)]
  }

  /** A statement that is noted whenever it runs. */
  watch(sql: string, statement: StatementSync): StatementSync {
    const note = (): void => void this.texts.push(sql)
    return Object.assign(Object.create(statement) as StatementSync, {
      all: (...values: SQLInputValue[]) => {
        note()
        return statement.all(...values)
      },
      get: (...values: SQLInputValue[]) => {
        note()
        return statement.get(...values)
      },
      run: (...values: SQLInputValue[]) => {
        note()
        return statement.run(...values)
      },
    })
  }
}

/** Watches every store of each test of the surrounding block, but not the bounds of its transactions. */
export function eachLog(): () => StatementLog {
  let log: StatementLog
  const original = Reflect.get(SqliteConnection.prototype, 'prepare')
  beforeEach(() => {
    const fresh = new StatementLog()
    log = fresh
    SqliteConnection.prototype.prepare = function prepare(this: SqliteConnection, sql: string): StatementSync {
      const statement = original.call(this, sql)
      return sql === 'BEGIN IMMEDIATE' || sql === 'COMMIT' ? statement : fresh.watch(sql, statement)
    }
  })
  afterEach(() => {
    SqliteConnection.prototype.prepare = original
  })
  return () => log
}
