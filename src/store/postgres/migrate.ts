import { SluiceError } from '../../base/errors.ts'
import { codeOf } from '../../database/postgres-error.ts'
import type { PostgresDatabase } from '../../database/postgres.ts'
import type { Statements } from '../../database/statements.ts'
import { inTransaction } from '../../database/postgres-transaction.ts'
import type { SchemaVersion } from '../contract/diagnosis.ts'
import { STATE } from '../shared/state.ts'
import { FUNCTIONS, MIGRATIONS } from './sql/embedded.ts'

const LOCK_NOT_AVAILABLE = '55P03'
/** How long an upgrade waits for one table before it lets go of those that it has, in ms: at first, and at most. */
const LOCK_WAIT_MS = [100, 800] as const
/** So many tries take about a minute. */
const TRIES = 76
const TOOK_US = '(extract(epoch FROM clock_timestamp() - now()) * 1000000)::bigint'
/** Processes at work could extend no lease while the tables were locked: each ends later by as long as that took. */
const EXTEND_LEASES = `UPDATE sluice.jobs SET due = due + ${TOOK_US} WHERE state = ${STATE.active};
UPDATE sluice.workers SET alive_until = alive_until + ${TOOK_US};`

/**
 * Upgrades the schema to this version, all or nothing. Processes that start together do it one after the other.
 * @throws {SluiceError} `store.version`; `store.busy` when another connection holds a table for a minute
 */
export async function migrate(db: PostgresDatabase): Promise<void> {
  let waitMs: number = LOCK_WAIT_MS[0]
  for (let tries = 1; ; tries++)
    try {
      return await db.autocommit((statements) => upgrade(db, statements, waitMs), true)
    } catch (error) {
      if (codeOf(error) !== LOCK_NOT_AVAILABLE) throw error
      if (tries === TRIES) throw held(db.schema, error)
      waitMs = Math.min(2 * waitMs, LOCK_WAIT_MS[1])
    }
}

function held(schema: string, cause: unknown): SluiceError {
  return new SluiceError(
    'store.busy',
    `The store in the schema ${schema} could not be upgraded: for a minute another connection has held one of its tables, as a long transaction does. End it (pg_stat_activity lists them by xact_start), and start again.`,
    { cause, lasts: 'passes' },
  )
}

async function upgrade(db: PostgresDatabase, statements: Statements, waitMs: number): Promise<void> {
  if ((await versionOf(statements)) === MIGRATIONS.length) return
  await inTransaction(statements, async () => {
    await statements.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.migrate'), 0)`)
    const version = await versionOf(statements)
    if (version === MIGRATIONS.length) return
    check(version)
    await statements.script(version === 0 ? `CREATE SCHEMA IF NOT EXISTS ${db.schema}` : lockTables(version, waitMs))
    for (const text of [...MIGRATIONS.slice(version), FUNCTIONS, EXTEND_LEASES]) await statements.script(text)
    await statements.run(
      `INSERT INTO sluice.store (name, value) VALUES ('version', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
      String(MIGRATIONS.length),
    )
  })
}

/**
 * Locks all tables before any is changed. Processes at work lock them in other orders: an upgrade that
 * waited for a table while it had changed others would stop them until the server finds a deadlock.
 */
function lockTables(version: number, waitMs: number): string {
  const tables = MIGRATIONS.slice(0, version).flatMap((text) =>
    [...text.matchAll(/^CREATE TABLE (\S+)/gm)].map(([, name]) => name),
  )
  return `SET LOCAL lock_timeout = ${waitMs}; LOCK TABLE ${tables.join()} IN ACCESS EXCLUSIVE MODE; SET LOCAL lock_timeout = 0`
}

/** The SQL that `migrate` would run; empty: the schema is current. */
export async function pendingMigrations(db: PostgresDatabase): Promise<string> {
  const version = await db.session(versionOf)
  check(version)
  if (version === MIGRATIONS.length) return ''
  const parts = [...MIGRATIONS.slice(version), FUNCTIONS, EXTEND_LEASES].map((text) =>
    text.replaceAll(/\bsluice\./g, `${db.schema}.`),
  )
  const create = version === 0 ? [`CREATE SCHEMA IF NOT EXISTS ${db.schema};`] : []
  const note = `INSERT INTO ${db.schema}.store (name, value) VALUES ('version', '${MIGRATIONS.length}') ON CONFLICT (name) DO UPDATE SET value = excluded.value;`
  return ['BEGIN;', ...create, ...parts, note, 'COMMIT;'].join('\n')
}

/** The version of the tables. */
export async function schemaOf(db: Statements): Promise<SchemaVersion> {
  return { stored: await versionOf(db), known: MIGRATIONS.length }
}

/**
 * The number of migrations applied; 0: there is no store.
 * @throws {SluiceError} `store.io` where transactions do not begin as READ COMMITTED
 */
async function versionOf(db: Statements): Promise<number> {
  // Without to_regclass: it caches a missing table, and would not see one that another process has just created.
  const [exists, isolation] = (await db.get<[boolean, string]>(
    `SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relname = 'store' AND n.nspname = replace(rtrim('sluice.', '.'), '"', '')),
     current_setting('default_transaction_isolation')`,
  )) as [boolean, string]
  // A statement behind a lock has to see what the lock waited for. PostgreSQL reads uncommitted as committed.
  if (!isolation.startsWith('read '))
    throw new SluiceError(
      'store.io',
      `The server begins the transactions of this role at ${isolation}; Sluice needs read committed. ALTER ROLE … SET default_transaction_isolation = 'read committed' for the role of the address.`,
    )
  if (!exists) return 0
  const row = await db.get<[number]>(`SELECT value::bigint FROM sluice.store WHERE name = 'version'`)
  return row?.[0] ?? 0
}

/** Checks that a store of this version exists. @throws {SluiceError} `store.missing`, `store.version` */
export async function checkExisting(db: PostgresDatabase): Promise<void> {
  const version = await db.session(versionOf)
  if (version === 0)
    throw new SluiceError(
      'store.missing',
      `The database has no Sluice store in the schema ${db.schema}. Name the database that your engine uses.`,
    )
  check(version)
  if (version < MIGRATIONS.length)
    throw new SluiceError(
      'store.version',
      `The store was written by an older Sluice (schema ${version}, this one knows ${MIGRATIONS.length}). sluice migrate upgrades it, and so does an engine of this version that opens it; reading does not.`,
    )
}

function check(version: number): void {
  if (version <= MIGRATIONS.length) return
  throw new SluiceError(
    'store.version',
    `The store was written by a newer Sluice (schema ${version}, this one knows ${MIGRATIONS.length}). Update Sluice, or open another store.`,
  )
}
