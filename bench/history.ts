// A history for soaks: one finished job, copied in the store's own tables as often as asked.
import { DatabaseSync } from 'node:sqlite'
import type { Client } from 'pg'
import { connect, schemaOf } from './postgres-statistics.ts'

const AT_ONCE = 500_000
/** Copies are kept far beyond any soak. */
const KEPT_US = 1e14

/** Copies a finished job of a store, which has to have one. */
export async function copyFinished(url: string, times: number): Promise<void> {
  if (!url.startsWith('postgres')) return copyInSqlite(url.slice('sqlite:'.length), times)
  const client = await connect(url)
  const schema = client.escapeIdentifier(schemaOf(url))
  const apart = await client.query('SELECT to_regclass($1) IS NOT NULL AS found', [`${schema}.done`])
  const isApart = (apart.rows[0] as { found: boolean }).found
  for (let made = 0; made < times; made += AT_ONCE)
    await (isApart ? copyApart : copyWide)(client, schema, Math.min(AT_ONCE, times - made))
  await client.query(`VACUUM ANALYZE ${schema}.${isApart ? 'done' : 'jobs'}`)
  await client.end()
}

/** A store that keeps the end of a job in a table of its own. */
async function copyApart(client: Client, schema: string, times: number): Promise<void> {
  const [facts, done] = [await columnsOf(client, `${schema}.job_facts`), await columnsOf(client, `${schema}.done`)]
  const ends = done.filter((name) => name !== 'seq' && name !== 'due')
  await client.query(
    `WITH one AS (SELECT * FROM ${schema}.done WHERE state = 3 LIMIT 1), made AS (
       INSERT INTO ${schema}.job_facts (id, ${facts.join(', ')})
       SELECT gen_random_uuid(), ${facts.map((name) => `f.${name}`).join(', ')}
       FROM one JOIN ${schema}.job_facts f ON f.seq = one.seq, generate_series(1, $1::int) RETURNING seq)
     INSERT INTO ${schema}.done (seq, due, ${ends.join(', ')})
     SELECT made.seq, one.due + ${KEPT_US}::bigint, ${ends.map((name) => `one.${name}`).join(', ')} FROM made, one`,
    [times],
  )
}

/** A store that keeps all of a job in one row. */
async function copyWide(client: Client, schema: string, times: number): Promise<void> {
  const names = (await columnsOf(client, `${schema}.jobs`)).filter((name) => name !== 'due')
  await client.query(
    `INSERT INTO ${schema}.jobs (id, due, ${names.join(', ')})
     SELECT gen_random_uuid(), one.due + ${KEPT_US}::bigint, ${names.map((name) => `one.${name}`).join(', ')}
     FROM (SELECT * FROM ${schema}.jobs WHERE state = 3 LIMIT 1) one, generate_series(1, $1::int)`,
    [times],
  )
}

/** The columns of a table that a copy gives as they are: neither its number nor its id. */
async function columnsOf(client: Client, table: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT attname AS name FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
     AND attidentity = '' AND attgenerated = '' AND attname <> 'id'`,
    [table],
  )
  return rows.map(({ name }) => name)
}

function copyInSqlite(file: string, times: number): void {
  const db = new DatabaseSync(file, { timeout: 60_000 })
  const names = (db.prepare("SELECT name FROM pragma_table_info('jobs')").all() as { name: string }[])
    .map(({ name }) => name)
    .filter((name) => !['seq', 'id', 'due'].includes(name))
  const copy = db.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO jobs (id, due, ${names.join(', ')})
     SELECT lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-'
         || hex(randomblob(2)) || '-' || hex(randomblob(6))), one.due + ${KEPT_US},
       ${names.map((name) => `one.${name}`).join(', ')}
     FROM (SELECT * FROM jobs WHERE state = 3 LIMIT 1) one, n`,
  )
  for (let made = 0; made < times; made += AT_ONCE) copy.run(Math.min(AT_ONCE, times - made))
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  db.close()
}
