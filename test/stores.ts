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
  /** The URL of a new, empty store. @param onEnd takes what removes it; default: at the end of the test */
  readonly create: (onEnd?: OnEnd) => string
}

/** Takes what is to be done at an end. */
export type OnEnd = (remove: () => void | Promise<void>) => void

let made = 0

/** SQLite, in a file of its own. */
export const onSqlite: StoreKind = {
  name: 'sqlite',
  create(onEnd = onTestFinished) {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-store-'))
    onEnd(() => rmSync(folder, { recursive: true, force: true }))
    return `sqlite:${join(folder, 'jobs.db')}`
  },
}

/** PostgreSQL, in a schema of its own; null where no server answers. */
export async function onPostgres(leftOut: string): Promise<StoreKind | null> {
  const server = await service('postgres', leftOut)
  if (server === null) return null
  return {
    name: 'postgres',
    create(onEnd = onTestFinished) {
      const schema = `sluice_test_${process.pid}_${++made}`
      onEnd(async () => {
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
