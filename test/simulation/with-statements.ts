import { expect } from 'vitest'
import { SqliteConnection } from '../../src/database/sqlite.ts'

/** Runs with every statement of the store rewritten. The change must bite, or the mutant is none. */
export async function withStatements<T>(from: string, to: string, run: () => Promise<T>): Promise<T> {
  const { prototype } = SqliteConnection
  const prepare = Object.getOwnPropertyDescriptor(prototype, 'prepare')?.value as SqliteConnection['prepare']
  let bites = 0
  prototype.prepare = function (this: SqliteConnection, sql: string): ReturnType<SqliteConnection['prepare']> {
    const changed = sql.replace(from, to)
    if (changed !== sql) bites++
    return prepare.call(this, changed)
  }
  try {
    const result = await run()
    expect(bites).toBeGreaterThan(0)
    return result
  } finally {
    prototype.prepare = prepare
  }
}
