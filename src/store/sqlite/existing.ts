import { accessSync, closeSync, constants, existsSync, openSync, unlinkSync } from 'node:fs'
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
  const version = readFrom(path, (db) => {
    const tables = db
      .prepare(`SELECT count(*) AS n FROM sqlite_schema WHERE name IN ('jobs', 'lanes', 'buckets')`)
      .get()
    if (tables?.['n'] !== 3) throw missing(path, 'is not a store of Sluice')
    return versionOf(db)
  })
  if (version < MIGRATIONS.length)
    throw new SluiceError(
      'store.version',
      `The store ${path} was written by an older Sluice (schema ${version}, this one knows ${MIGRATIONS.length}). An engine of this version upgrades it when it opens it; reading does not.`,
    )
}

/**
 * Checks that an engine could open a file, upgrade it or make it, and leaves all as it was.
 * @throws {SluiceError} `store.missing`; `store.version` if its tables are of a newer version
 */
export function checkStartable(path: string): void {
  if (path === ':memory:') return
  const refusal = refusalBeside(path)
  if (!existsSync(path)) {
    if (refusal === null) return
    throw missing(path, 'cannot be made: its folder is not there, or takes no such file from this user', refusal)
  }
  if (!isWritable(path) || refusal !== null) throw notWritable(path, refusal)
  checkNotNewer(readFrom(path, versionOf))
}

/** @throws {SluiceError} `store.version` */
export function checkNotNewer(version: number): void {
  if (version <= MIGRATIONS.length) return
  throw new SluiceError(
    'store.version',
    `The store was written by a newer Sluice (schema ${version}, this one knows ${MIGRATIONS.length}). Update Sluice, or open another file.`,
  )
}

function versionOf(db: DatabaseSync): number {
  return Number(db.prepare('PRAGMA user_version').get()?.['user_version'])
}

function readFrom<T>(path: string, read: (db: DatabaseSync) => T): T {
  let db: DatabaseSync | null = null
  try {
    // The last process to close the file may lock it for a moment.
    db = openDatabase(path, { readOnly: true, timeout: BUSY_MS })
    return read(db)
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause
    if (!isWritable(path) || !isWritable(dirname(path))) throw notWritable(path, cause)
    throw missing(path, 'cannot be read as a store', cause)
  } finally {
    db?.close()
  }
}

/**
 * Why no file can be made beside another; null: it can. Rights alone do not tell: a folder of the kernel, or a name
 * that is too long, takes none.
 */
function refusalBeside(path: string): unknown {
  // As long as the longest name that SQLite adds, which is -journal.
  const probe = `${path}-sluice0`
  try {
    closeSync(openSync(probe, 'wx'))
    unlinkSync(probe)
    return null
  } catch (error) {
    // Another check is about to remove it.
    return error instanceof Error && 'code' in error && error.code === 'EEXIST' ? null : error
  }
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function notWritable(path: string, cause?: unknown): SluiceError {
  return new SluiceError(
    'store.missing',
    `${path} cannot be opened: this user may not write it and its folder, which SQLite needs for its log even to read. Run the command as the user of the engine.`,
    { cause },
  )
}

function missing(path: string, what: string, cause?: unknown): SluiceError {
  return new SluiceError(
    'store.missing',
    `${path} ${what}. Name the file that your engine uses, as in sqlite:./sluice.db.`,
    { cause },
  )
}
