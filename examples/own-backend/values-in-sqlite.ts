// A backend of one's own: budgets in a table of a SQLite file, which all processes of a machine share.
import { DatabaseSync } from 'node:sqlite'
import { type LimitBackend, valueBackend } from '../../src/exports/limiter.ts'

/** @param nowUs the clock, in whole µs since 1970 */
export function valuesInSqlite(file: string, nowUs: () => number = () => Date.now() * 1000): LimitBackend {
  const db = new DatabaseSync(file)
  db.exec('PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 200')
  db.exec('CREATE TABLE IF NOT EXISTS budgets (key TEXT PRIMARY KEY, value TEXT NOT NULL, ends REAL)')
  const read = db.prepare('SELECT value FROM budgets WHERE key = ?')
  const write = db.prepare('INSERT OR REPLACE INTO budgets (key, value, ends) VALUES (?, ?, ?)')
  const remove = db.prepare('DELETE FROM budgets WHERE key = ? OR ends < ?')
  return valueBackend({
    async update(keys, decide) {
      // The lock of the file makes this one step, for other processes too.
      db.exec('BEGIN IMMEDIATE')
      try {
        const now = nowUs()
        const values = keys.map((key) => (read.get(key)?.['value'] as string | undefined) ?? null)
        for (const [i, value] of decide(values, now).entries()) {
          if (value?.text === null) remove.run(keys[i] ?? '', now)
          else if (value) write.run(keys[i] ?? '', value.text, value.ttlMs === null ? null : now + value.ttlMs * 1000)
        }
        db.exec('COMMIT')
      } catch (error) {
        db.exec('ROLLBACK')
        throw error
      }
    },
    close: async () => db.close(),
  })
}
