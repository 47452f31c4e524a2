import { accessSync, constants, existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { SluiceError } from '../../base/errors.ts'
import { openDatabase } from '../../database/node-sqlite.ts'
import { MIGRATIONS } from './sql/embedded.ts'

const BUSY_MS = 5000

/**
 * Checks that a file is a store of this version, and changes nothing: reading a missing store must not create it.
 * @throws {SluiceError} `store.missing`; `store.version` if its tables are of another version
 */
export function checkExisting(path: string): void {
  if (path === ':memory:')
    throw new SluiceError(
      'store.missing',
      'A store in memory ends with its process: there is nothing to read. Name a file.',
    )
  if (!existsSync(path)) throw missing(path, 'does not exist')
  const version = schemaOf(path)
  if (version < MIGRATIONS.length)
    throw new SluiceError(
      'store.version',
      `The store ${path} was written by an older Sluice (schema ${version}, this one knows ${MIGRATIONS.length}). An engine of this version upgrades it when it opens it; reading does not.`,
    )
}

function schemaOf(path: string): number {
  let db: DatabaseSync | null = null
  try {
    // The last process to close the file may lock it for a moment.
    db = openDatabase(path, { readOnly: true, timeout: BUSY_MS })
    const tables = db
      .prepare(`SELECT count(*) AS n FROM sqlite_schema WHERE name IN ('jobs', 'lanes', 'buckets')`)
      .get()
    if (tables?.['n'] !== 3) throw missing(path, 'is not a store of Sluice')
    return Number(db.prepare('PRAGMA user_version').get()?.['user_version'])
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause
    if (!isWritable(path))
      throw new SluiceError(
        'store.missing',
        `${path} cannot be opened: this user may not write it and its folder, which SQLite needs for its log even to read. Run the command as the user of the engine.`,
        { cause },
      )
    throw missing(path, 'cannot be read as a store', cause)
  } finally {
    db?.close()
  }
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    accessSync(dirname(path), constants.W_OK)
    return true
  } catch {
    return false
  }
}

function missing(path: string, what: string, cause?: unknown): SluiceError {
  return new SluiceError(
    'store.missing',
    `${path} ${what}. Name the file that your engine uses, as in sqlite:./sluice.db.`,
    { cause },
  )
}
