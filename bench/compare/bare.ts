// The bare loops: claim, settle and insert on the same databases without any engine. No engine on these stores can
// pass them; ratios to them say what an engine costs.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Pool } from 'pg'
import { nowUs } from './engine.ts'
import type { Measure, Round } from './measurements.ts'

const INPUT = JSON.stringify({ n: 12345, text: 'x'.repeat(60) })
const BATCHES = [1, 100, 1000]

/** Inserts per second, by the size of the batch: each batch is one synced commit. */
export const bareSqliteInserts: Measure = async (round) =>
  withSqlite(round, async (insert) => {
    const numbers: Record<string, number> = {}
    for (const batch of BATCHES)
      numbers[`${batch} a commit/s`] = await rate(round, batch, () => Promise.resolve(insert(batch)))
    return numbers
  })

/** Claims with settlements per second: one commit settles a batch, which keeps the rows, and claims the next. */
export function bareSqliteDrain(batch: number): Measure {
  return (round) =>
    withSqlite(round, async (insert, db) => {
      for (let n = 0; n < 400_000 * Math.max(round.scale, 0.2); n += 10_000) insert(10_000)
      const claim = db.prepare(
        `UPDATE jobs SET state = 1, attempts = attempts + 1, lease = ? WHERE id IN (SELECT id FROM jobs
         WHERE state = 0 AND queue = 'q' AND run_at <= ? ORDER BY priority, run_at, id LIMIT ${batch}) RETURNING id, input`,
      )
      const settle = db.prepare('UPDATE jobs SET state = 2, lease = NULL WHERE id IN (SELECT value FROM json_each(?))')
      let held: number[] = []
      const perSecond = await rate(round, batch, () => {
        db.exec('BEGIN IMMEDIATE')
        if (held.length > 0) settle.run(JSON.stringify(held))
        const rows = claim.all(Date.now() + 30_000, Date.now()) as { id: number; input: string }[]
        db.exec('COMMIT')
        for (const { input } of rows) JSON.parse(input)
        held = rows.map(({ id }) => id)
        return Promise.resolve(rows.length)
      })
      return { 'jobs/s': perSecond }
    })
}

/** Inserts per second on PostgreSQL, by the size of the batch. Batches of 100 go over two connections. */
export const barePostgresInserts: Measure = (round) =>
  withPostgres(round, async (pool) => {
    const numbers: Record<string, number> = {}
    for (const batch of BATCHES)
      numbers[`${batch} a commit/s`] = await rate(round, batch, () => insertInto(pool, batch), batch === 100 ? 2 : 1)
    return numbers
  })

/** The same loop on PostgreSQL: one statement over each of two connections. */
export function barePostgresDrain(batch: number): Measure {
  return (round) =>
    withPostgres(round, async (pool) => {
      for (let n = 0; n < 250_000 * Math.max(round.scale, 0.2); n += 10_000) await insertInto(pool, 10_000)
      await pool.query('ANALYZE compare_bare')
      const held: string[][] = [[], []]
      const perSecond = await rate(
        round,
        batch,
        async (connection) => {
          const { rows } = await pool.query<{ id: string }>({
            name: `cycle${batch}`,
            text: `WITH settled AS (UPDATE compare_bare SET state = 2, lease = NULL WHERE id = ANY ($1::bigint[])),
              next AS MATERIALIZED (SELECT id FROM compare_bare WHERE state = 0 AND queue = 'q' AND run_at <= now()
                ORDER BY priority, run_at, id LIMIT ${batch} FOR UPDATE SKIP LOCKED)
              UPDATE compare_bare j SET state = 1, attempts = attempts + 1, lease = now() + interval '30s'
              FROM next WHERE j.id = next.id RETURNING j.id, j.input`,
            values: [held[connection]],
          })
          held[connection] = rows.map(({ id }) => id)
          return rows.length
        },
        2,
      )
      return { 'jobs/s': perSecond }
    })
}

async function withSqlite(
  { servers }: Round,
  ask: (insert: (count: number) => number, db: DatabaseSync) => Promise<Readonly<Record<string, number>>>,
): Promise<Readonly<Record<string, number>>> {
  const file = join(servers.folder, 'bare.db')
  const db = new DatabaseSync(file)
  for (const pragma of ['journal_mode=WAL', 'synchronous=FULL', 'cache_size=-65536', 'mmap_size=268435456'])
    db.exec(`PRAGMA ${pragma}`)
  db.exec(`CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, state INTEGER NOT NULL, priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, lease INTEGER, input TEXT NOT NULL) STRICT;
    CREATE INDEX ready ON jobs (queue, priority, run_at, id) WHERE state = 0; CREATE INDEX leased ON jobs (lease) WHERE state = 1`)
  const one = db.prepare("INSERT INTO jobs (queue, state, priority, run_at, input) VALUES ('q', 0, 0, ?, ?)")
  const insert = (count: number): number => {
    db.exec('BEGIN IMMEDIATE')
    const now = Date.now()
    for (let n = 0; n < count; n++) one.run(now, INPUT)
    db.exec('COMMIT')
    return count
  }
  try {
    return await ask(insert, db)
  } finally {
    db.close()
    for (const end of ['', '-wal', '-shm']) rmSync(file + end, { force: true })
  }
}

async function withPostgres(
  { servers }: Round,
  ask: (pool: Pool) => Promise<Readonly<Record<string, number>>>,
): Promise<Readonly<Record<string, number>>> {
  const pool = new Pool({ connectionString: servers.postgres, max: 4 })
  await pool.query(`CREATE TABLE compare_bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL,
    state smallint NOT NULL, priority int NOT NULL, run_at timestamptz NOT NULL, attempts int NOT NULL DEFAULT 0,
    lease timestamptz, input jsonb NOT NULL) WITH (autovacuum_vacuum_scale_factor = 0.02, fillfactor = 80);
    CREATE INDEX ON compare_bare (queue, priority, run_at, id) WHERE state = 0;
    CREATE INDEX ON compare_bare (lease) WHERE state = 1`)
  try {
    return await ask(pool)
  } finally {
    await pool.query('DROP TABLE compare_bare')
    await pool.end()
  }
}

async function insertInto(pool: Pool, count: number): Promise<number> {
  await pool.query({
    name: 'insert',
    text: "INSERT INTO compare_bare (queue, state, priority, run_at, input) SELECT 'q', 0, 0, now(), i::jsonb FROM unnest($1::text[]) i",
    values: [Array.from({ length: count }, () => INPUT)],
  })
  return count
}

/** Jobs per second of a loop; the median of three spells. */
async function rate(
  { scale }: Round,
  batch: number,
  cycle: (connection: number) => Promise<number>,
  connections = 1,
): Promise<number> {
  const spellUs = Math.max(0.2, scale) * 600_000
  const rates: number[] = []
  for (let spell = 0; spell < 3; spell++) {
    const startUs = nowUs()
    let jobs = 0
    const one = async (_: unknown, connection: number): Promise<void> => {
      let found = batch
      while (nowUs() < startUs + spellUs && found > 0) jobs += found = await cycle(connection)
    }
    await Promise.all(Array.from({ length: connections }, one))
    rates.push(jobs / ((nowUs() - startUs) / 1e6))
  }
  return rates.sort((a, b) => a - b)[1] as number
}
