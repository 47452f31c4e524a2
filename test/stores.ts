// Where tests that run on every store put theirs.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { onTestFinished } from 'vitest'
import { dropSchema } from './drop-schema.ts'
import { PostgresCluster } from './postgres-cluster.ts'
import { inSchema, service } from './services.ts'

/** A kind of store that a test runs on. */
export interface StoreKind {
  readonly name: 'sqlite' | 'postgres'
  /** The URL of a new, empty store, gone when the test has finished. */
  readonly create: () => string
}

let made = 0

/** SQLite, in a file of its own. */
export const onSqlite: StoreKind = {
  name: 'sqlite',
  create() {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-store-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    return `sqlite:${join(folder, 'jobs.db')}`
  },
}

/** PostgreSQL, in a schema of its own; null where no server answers. */
export async function onPostgres(leftOut: string): Promise<StoreKind | null> {
  const server = await service('postgres', leftOut)
  if (server === null) return null
  return {
    name: 'postgres',
    create() {
      const schema = `sluice_test_${process.pid}_${++made}`
      onTestFinished(async () => {
        const client = new Client({ connectionString: server })
        await client.connect()
        await dropSchema(client, schema)
        await client.end()
      })
      return inSchema(server, schema)
    },
  }
}

/** Every kind of store that there is here. */
export async function everyStore(leftOut: string): Promise<StoreKind[]> {
  const postgres = await onPostgres(`${leftOut}, on PostgreSQL`)
  return postgres ? [onSqlite, postgres] : [onSqlite]
}

/** A PostgreSQL server of the test's own, gone when it has finished. */
export async function ownPostgres(): Promise<PostgresCluster> {
  const cluster = await PostgresCluster.create()
  onTestFinished(() => cluster.remove())
  return cluster
}
