import type * as NodeSqlite from 'node:sqlite'

/**
 * Node's own SQLite. An import of `node:sqlite` would fail on an older Node while modules are linked, which is before
 * base/supported-node.ts can say which Node is needed.
 */
const sqlite: typeof NodeSqlite = process.getBuiltinModule('node:sqlite')

/** Opens a database of Node's own SQLite. */
export const openDatabase = (path: string, options: NodeSqlite.DatabaseSyncOptions = {}): NodeSqlite.DatabaseSync =>
  new sqlite.DatabaseSync(path, options)
