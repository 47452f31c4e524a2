// Where tests that run on every store put theirs.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { PostgresCluster } from './postgres-cluster.ts'
import { ReusedSchemas } from './reused-schemas.ts'
import { service } from './services.ts'

/** A kind of store that a test runs on. */
export interface StoreKind {
  readonly name: 'sqlite' | 'postgres'
  /** The URL of a new, empty store. @param onEnd takes what removes it; default: at the end of the test */
  readonly create: (onEnd?: OnEnd) => string
  /** The URL of a place that holds no store yet, not even an empty one; its remover runs at the end of the test. */
  readonly vacant: () => string
}

/** Takes what is to be done at an end. */
export type OnEnd = (remove: () => void | Promise<void>) => void

/** SQLite, in a file of its own. */
export const onSqlite: StoreKind = { name: 'sqlite', create: newFile, vacant: newFile }

function newFile(onEnd: OnEnd = onTestFinished): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-store-'))
  onEnd(() => rmSync(folder, { recursive: true, force: true }))
  return `sqlite:${join(folder, 'jobs.db')}`
}

/** PostgreSQL, in a schema of its own; null where no server answers. A file calls it before its tests. */
export async function onPostgres(leftOut: string): Promise<StoreKind | null> {
  const server = await service('postgres', leftOut)
  if (server === null) return null
  const schemas = await ReusedSchemas.create(server)
  const lend = (schema: string, onEnd: OnEnd = onTestFinished): string => {
    onEnd(() => schemas.giveBack(schema))
    return schemas.urlOf(schema)
  }
  return { name: 'postgres', create: (onEnd) => lend(schemas.take(), onEnd), vacant: () => lend(schemas.vacant()) }
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
