import { systemClock } from '../base/clock.ts'
import type { PgClient, PgPool, PgResult } from './pg.ts'

/** After this time without a byte from the server, another connection asks for the silent one's state. */
const SILENT_MS = 2000
/** The answer to that question may take so long. */
const ASK_WITHIN_MS = 2500
/** An answer that was sent just before the question may still be on its way. */
const GRACE_MS = 250
/** The longest silence when no connection can see the server's activity, as behind a pooler. */
const UNKNOWN_AT_MOST_MS = 15_000
/** The longest run of a statement that the server is executing, unless its caller is patient. */
const AT_MOST_MS = 60_000

/**
 * The state of a silent connection, as another one sees it. `works`: its statement runs. `idle`: no statement runs.
 * `unknown`: it cannot see. `unreached`: it cannot reach the server.
 */
type Activity = 'works' | 'idle' | 'unknown' | 'unreached'

const ASK = `SELECT pg_backend_pid(), (SELECT CASE WHEN state IS NULL THEN 'unknown'
    WHEN state = 'active' AND wait_event_type IS DISTINCT FROM 'Client' THEN 'works' ELSE 'idle' END FROM pg_stat_activity WHERE pid = $1)`

/**
 * Ends calls whose connection died without notice: the network forgot it, or the other machine is gone. A long silence
 * proves nothing alone. The server may be working, or this process may have been stopped. So a new connection asks for
 * the state of the silent one.
 */
export class Silence {
  readonly #pool: PgPool
  readonly #heardUs = new WeakMap<object, number>()
  #suspectUs = 0

  constructor(pool: PgPool) {
    this.#pool = pool
  }

  /** The server has just been heard over this connection. */
  heard(client: PgClient): void {
    this.#heardUs.set(client, systemClock.monotonicUs())
  }

  /** Whether a connection may have died with another: it has been silent since a write to that one failed. */
  suspects(client: PgClient): boolean {
    return this.#suspectUs > 0 && (this.#heardUs.get(client) ?? 0) < this.#suspectUs
  }

  /**
   * Waits for the answer to a call. If its connection died, drops it and throws. @param patient lets the server take
   * any time
   */
  async bound<T>(client: PgClient, call: Promise<T>, patient: boolean): Promise<T> {
    const watch = new Watch(client, patient, (pid) => this.#ask(pid))
    try {
      const answer = await Promise.race([call, watch.dead])
      this.heard(client)
      return answer
    } catch (error) {
      if (error instanceof SilentError) this.#suspectUs = Math.max(this.#suspectUs, watch.sinceUs)
      throw error
    } finally {
      watch.end()
    }
  }

  /** Asks over a new connection, since all of the pool may be silent. */
  async #ask(pid: number): Promise<Activity> {
    const { Client, options } = this.#pool
    if (!Client || !options) return 'unknown'
    const { password } = options
    const other = new Client({ ...options, password, connectionTimeoutMillis: ASK_WITHIN_MS })
    other.on('error', () => {})
    const answering = other.connect().then(() => other.query({ text: ASK, values: [pid], rowMode: 'array' }))
    try {
      const answer = await inTime(answering, ASK_WITHIN_MS)
      if (!answer) return 'unreached'
      const [own, activity] = (answer as PgResult).rows[0] as [number, Activity | null]
      // Behind a pooler numbers of processes are made up.
      if (own !== other.processID) return 'unknown'
      return activity ?? 'idle'
    } catch (error) {
      // A server that refuses is there.
      return error instanceof Error && 'severity' in error ? 'unknown' : 'unreached'
    } finally {
      drop(other)
    }
  }
}

/** One call that is on its way. */
class Watch {
  readonly dead: Promise<never>
  readonly sinceUs: number = systemClock.monotonicUs()
  readonly #client: PgClient
  readonly #patient: boolean
  readonly #ask: (pid: number) => Promise<Activity>
  #timer: NodeJS.Timeout
  #bytes: number | undefined
  #fail: (error: Error) => void = () => {}
  #ended = false

  constructor(client: PgClient, patient: boolean, ask: (pid: number) => Promise<Activity>) {
    this.#client = client
    this.#patient = patient
    this.#ask = ask
    this.#bytes = bytesRead(client)
    this.dead = new Promise((_, reject) => (this.#fail = reject))
    // Otherwise the rejection counts as unhandled when the call itself ends first.
    this.dead.catch(() => {})
    this.#timer = setTimeout(() => void this.#look(), SILENT_MS)
  }

  end(): void {
    this.#ended = true
    clearTimeout(this.#timer)
  }

  async #look(): Promise<void> {
    const bytes = bytesRead(this.#client)
    const came = bytes !== this.#bytes
    this.#bytes = bytes
    if (came) return this.#later(SILENT_MS)
    const { processID } = this.#client
    const activity = typeof processID === 'number' ? await this.#ask(processID) : 'unknown'
    if (this.#ended) return
    const ms = (systemClock.monotonicUs() - this.sinceUs) / 1000
    const borne =
      activity === 'works' ? this.#patient || ms < AT_MOST_MS : activity === 'unknown' && ms < UNKNOWN_AT_MOST_MS
    if (borne) return this.#later(SILENT_MS)
    if (activity === 'idle') await new Promise((resolve) => setTimeout(resolve, GRACE_MS))
    if (this.#ended || bytesRead(this.#client) !== bytes) return this.#later(SILENT_MS)
    drop(this.#client)
    this.#fail(new SilentError(ms))
  }

  #later(ms: number): void {
    if (!this.#ended) this.#timer = setTimeout(() => void this.#look(), ms)
  }
}

/** A connection over which nothing came any more. */
export class SilentError extends Error {
  readonly code = 'ETIMEDOUT'

  constructor(ms: number) {
    super(`no answer came for ${Math.round(ms)} ms`)
    this.name = 'SilentError'
  }
}

/** Closes the socket of a connection at once. A graceful end over a dead connection would never finish. */
export function drop(client: PgClient): void {
  client.connection?.stream?.destroy()
}

/**
 * Waits for a promise at most `ms`; undefined once the time is over. @param ends receives a function that ends the wait
 * early
 */
export async function inTime<T>(promise: Promise<T>, ms: number, ends?: Set<() => void>): Promise<T | undefined> {
  let end: () => void = () => {}
  const over = new Promise<undefined>((resolve) => (end = (): void => resolve(undefined)))
  const timer = setTimeout(end, ms)
  ends?.add(end)
  promise.catch(() => {})
  try {
    return await Promise.race([promise, over])
  } finally {
    clearTimeout(timer)
    ends?.delete(end)
  }
}

function bytesRead(client: PgClient): number | undefined {
  return client.connection?.stream?.bytesRead
}
