import type { Client, Pool } from 'pg'
import { MIGRATIONS } from '../src/store/postgres/sql/embedded.ts'

/** Empties the tables of a store and sets their numbers back, as if it were new. The clock of a test stays. */
export async function emptySchema(db: Client | Pool, schema: string): Promise<void> {
  await db.query({ name: `empty ${schema}`, text: `SELECT "${schema}".empty_for_tests()` })
}

/** Adds the function that empties a store: to list and plan its tables after each test would take longer. */
export async function createEmptying(db: Client | Pool, schema: string): Promise<void> {
  const namesOf = async (kind: 'table' | 'sequence'): Promise<string[]> => {
    const { rows } = await db.query<{ name: string }>(
      `SELECT format('%I.%I', schemaname, ${kind}name) AS name FROM pg_${kind}s WHERE schemaname = $1`,
      [schema],
    )
    return rows.map(({ name }) => name)
  }
  const steps = [
    ...(await namesOf('table')).map((name) => `DELETE FROM ${name}`),
    ...(await namesOf('sequence')).map((name) => `PERFORM setval('${name}', 1, false)`),
    `INSERT INTO "${schema}".store (name, value) VALUES ('version', '${MIGRATIONS.length}')`,
  ]
  await db.query(
    `CREATE FUNCTION "${schema}".empty_for_tests() RETURNS void LANGUAGE plpgsql AS $$ BEGIN ${steps.join('; ')}; END $$`,
  )
}
