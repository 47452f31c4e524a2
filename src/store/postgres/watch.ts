import { randomUUID } from 'node:crypto'
import type { Clock, Timer } from '../../base/clock.ts'
import type { PgEvent, PgPoolClient, PostgresDatabase } from '../../database/postgres.ts'

/** Rings made within this time go out as one. */
const COALESCE_MS = 5
const LISTEN_AGAIN_MS = 1000
/** Without bells between processes others' work is looked for so often. */
const POLL_MS = 250

/** Bells between processes: NOTIFY off the commit path, never relied upon. */
export class Bell {
  readonly #db: PostgresDatabase
  readonly #clock: Clock
  readonly #notify: boolean
  readonly #own = randomUUID()
  readonly #listeners = new Set<() => void>()
  #ringing: Timer | null = null
  #timer: Timer | null = null
  #client: PgPoolClient | null = null
  #closed = false

  constructor(db: PostgresDatabase, clock: Clock, notify: boolean) {
    this.#db = db
    this.#clock = clock
    this.#notify = notify
  }

  /** Tells other processes that there may be something to claim. */
  ring(): void {
    if (!this.#notify || this.#ringing || this.#closed) return
    this.#ringing = this.#clock.setTimer(() => {
      this.#ringing = null
      if (this.#closed) return
      this.#db.all(`SELECT pg_notify('sluice', $1)`, `${this.#db.schema}:${this.#own}`).catch(ignore)
    }, COALESCE_MS)
    this.#ringing.unref?.()
  }

  watch(listener: () => void): () => void {
    this.#listeners.add(listener)
    if (this.#listeners.size === 1) this.#begin()
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#end()
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#ringing?.cancel()
    this.#end()
  }

  #begin(): void {
    if (this.#notify) void this.#listen()
    else this.#poll()
  }

  #end(): void {
    this.#timer?.cancel()
    this.#timer = null
    // A connection that listened is not for anybody else.
    this.#client?.release(true)
    this.#client = null
  }

  #poll(): void {
    this.#timer = this.#clock.setTimer(() => {
      this.#tell()
      this.#poll()
    }, POLL_MS)
  }

  async #listen(): Promise<void> {
    try {
      const { client, statements } = await this.#db.reserve()
      if (this.#closed || this.#listeners.size === 0) return client.release(true)
      this.#client = client
      client.on('notification', ({ payload = '' }: PgEvent) => {
        const [schema, from] = payload.split(':')
        if (schema === this.#db.schema && from !== this.#own) this.#tell()
      })
      client.on('error', () => this.#listenAgain(client))
      await statements.script('LISTEN sluice')
      // What was rung while nobody listened is looked for.
      this.#tell()
    } catch {
      this.#listenAgain(this.#client)
    }
  }

  #listenAgain(client: PgPoolClient | null): void {
    if (client !== this.#client) return
    client?.release(true)
    this.#client = null
    if (this.#closed || this.#listeners.size === 0) return
    this.#timer = this.#clock.setTimer(() => void this.#listen(), LISTEN_AGAIN_MS)
    this.#timer.unref?.()
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }
}

function ignore(): void {
  // A bell that does not ring is made up for by timers.
}
