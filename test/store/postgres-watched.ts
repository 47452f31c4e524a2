import { Pool } from 'pg'
import { afterEach, beforeEach } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { PgPool, PgPoolClient } from '../../src/database/pg.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { dropSchema } from '../drop-schema.ts'
import { POSTGRES_URL } from './postgres-backend.ts'

/** A pool that reports each query before it is sent, and counts the errors that come back by their code. */
export class WatchedPool implements PgPool {
  readonly #pool: Pool
  readonly queries: string[] = []
  readonly errors: Map<string, number> = new Map()
  /** Runs before each query; may wait, or throw in its place. */
  before: ((text: string) => Promise<void> | void) | null = null
  /** Runs after each query that went well; may throw in place of its answer. */
  after: ((text: string) => void) | null = null

  constructor(max = 4) {
    this.#pool = new Pool({ connectionString: POSTGRES_URL, max })
    this.#pool.on('error', () => undefined)
  }

  async connect(): Promise<PgPoolClient> {
    const client = await this.#pool.connect()
    const watched = {
      query: async (config: { text: string }) => {
        this.queries.push(config.text)
        await this.before?.(config.text)
        try {
          const answer = await (client.query as (config: { text: string }) => Promise<unknown>).call(client, config)
          this.after?.(config.text)
          return answer
        } catch (error) {
          const code = error instanceof Error && 'code' in error ? String(error.code) : 'none'
          this.errors.set(code, (this.errors.get(code) ?? 0) + 1)
          throw error
        }
      },
      release: (broken?: boolean) => client.release(broken),
      on: (event: 'error', listener: () => void) => client.on(event, listener),
      off: (event: 'error', listener: () => void) => client.off(event, listener),
    }
    return watched as unknown as PgPoolClient
  }

  end(): Promise<void> {
    return this.#pool.end()
  }

  on(): void {
    // Nothing that a test waits for.
  }

  off(): void {
    // Nor stops waiting for.
  }
}

/** A store whose queries a test watches. */
export interface Watched {
  readonly store: PostgresStore
  readonly pool: WatchedPool
  readonly schema: string
  /** Runs a statement in the schema of the store. */
  readonly sql: (text: string) => Promise<{ readonly rows: readonly unknown[] }>
  /** Closes the store, and removes its schema. */
  readonly end: () => Promise<void>
}

/** Such a store in a schema of its own, not open yet. */
export function watchedStore(name: string, connections?: number): Watched {
  const schema = `sluice_${name}_${process.pid}`
  const pool = new WatchedPool(connections)
  const store = new PostgresStore({
    connection: pool,
    schema,
    clock: systemClock,
    retention: RETENTION,
    notify: false,
  })
  const admin = new Pool({ connectionString: POSTGRES_URL, max: 1, options: `-c search_path=${schema}` })
  return {
    store,
    pool,
    schema,
    sql: (text) => admin.query(text),
    async end() {
      await store.close()
      await pool.end()
      await dropSchema(admin, schema)
      await admin.end()
    },
  }
}

/** Opens one for each test of the surrounding block. */
export function eachWatchedStore(name: string): () => Watched {
  let count = 0
  let watched: Watched
  beforeEach(async () => {
    watched = watchedStore(`${name}_${++count}`)
    await watched.store.open()
  })
  afterEach(() => watched.end())
  return () => watched
}
