import { statSync } from 'node:fs'
import type { Clock } from '../../base/clock.ts'
import type { SqliteConnection } from '../../database/sqlite.ts'
import type { Diagnosis } from '../contract/diagnosis.ts'

/** Reads the figures of a SQLite file. */
export function diagnose(db: SqliteConnection, clock: Clock, path: string): Diagnosis {
  const beganUs = clock.monotonicUs()
  const [version, pages, free, size] = db.get<[string, number, number, number]>(
    `SELECT sqlite_version(), p.page_count, f.freelist_count, s.page_size
     FROM pragma_page_count() p, pragma_freelist_count() f, pragma_page_size() s`,
  ) as [string, number, number, number]
  return {
    database: `SQLite ${version}`,
    clockOffsetMs: 0,
    roundTripMs: (clock.monotonicUs() - beganUs) / 1000,
    bytes: pages * size,
    freeBytes: free * size,
    logBytes: db.inMemory ? 0 : (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0),
    tables: [],
    transactions: [],
    blocked: [],
  }
}
