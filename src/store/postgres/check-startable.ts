import { SluiceError } from '../../base/errors.ts'
import type { PostgresDatabase } from '../../database/postgres.ts'
import type { Statements } from '../../database/statements.ts'
import { schemaOf } from './migrate.ts'

/** Names of tables and sequences; null: there is none. */
type Names = string | null

/** The role's name, whether it only reads or may create schemas, and what it neither owns, writes nor uses. */
type Rights = readonly [
  user: string,
  reads: boolean,
  creates: boolean,
  foreign: Names,
  unwritable: Names,
  unused: Names,
]

const RIGHTS = `SELECT current_user::text, current_setting('transaction_read_only') = 'on',
    has_database_privilege(current_database(), 'CREATE'),
    string_agg(c.relname, ', ' ORDER BY c.relname) FILTER (WHERE NOT pg_has_role(c.relowner, 'USAGE')),
    string_agg(c.relname, ', ' ORDER BY c.relname) FILTER (WHERE c.relkind = 'r' AND NOT (
      has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
      AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))),
    string_agg(c.relname, ', ' ORDER BY c.relname) FILTER (
      WHERE c.relkind = 'S' AND NOT has_sequence_privilege(c.oid, 'USAGE'))
  FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'S')
  WHERE n.nspname = replace(rtrim('sluice.', '.'), '"', '')`

/**
 * Checks that an engine could open the store, upgrade it or make it, by the rights of the role; changes nothing.
 * @throws {SluiceError} `store.version`, `store.io`
 */
export async function checkStartable(db: PostgresDatabase): Promise<void> {
  await db.transaction(async (statements) => {
    const { stored, known } = await schemaOf(statements)
    const fault = await faultOf(statements, stored, known)
    if (fault === null) return
    const remedy = 'Grant the right to the role of the address, or run sluice migrate with a role that has it.'
    throw new SluiceError('store.io', `A start would fail. ${fault} ${remedy}`)
  })
}

async function faultOf(db: Statements, stored: number, known: number): Promise<string | null> {
  const [user, reads, creates, foreign, unwritable, unused] = (await db.get<Rights>(RIGHTS)) as Rights
  if (reads) return `The transactions of the role ${user} only read, as on a standby.`
  if (stored === 0) return creates ? null : `The role ${user} may not create schemas in the database.`
  if (stored < known && foreign !== null) return `The role ${user} does not own what is to be upgraded: ${foreign}.`
  if (unwritable !== null) return `The role ${user} may not write ${unwritable}.`
  return unused === null ? null : `The role ${user} may not use ${unused}.`
}
