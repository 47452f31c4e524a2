import { Pool } from 'pg'
import type { PgPool, PgPoolClient } from '../../src/database/pg.ts'
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
