/** The store on PostgreSQL over a pool of your own. Needs the package `pg`. */
import '../base/supported-node.ts'
export { createPostgresStore, type PostgresOptions } from '../store/postgres/create.ts'
export type { PgPool } from '../database/pg.ts'
