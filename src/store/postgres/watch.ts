import { randomUUID } from 'node:crypto'
import { type Clock, systemClock, type Timer } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import type { PgEvent, PgPoolClient } from '../../database/pg.ts'
import type { PostgresDatabase } from '../../database/postgres.ts'
import type { Statements } from '../../database/statements.ts'
import type { Change } from '../contract/store.ts'

/**
 * The first notification is sent at once, and later ones within this time are merged into one. The end of a job is only
 * urgent for those that wait for its result.
 */
const COALESCE_MS: Readonly<Record<Exclude<Change, 'any'>, number>> = { work: 5, cancelled: 5, ended: 25 }
/** News may be lost, so they need no sync to disk. */
const NOTIFY = `SELECT set_config('synchronous_commit', 'off', true), pg_notify('sluice', $1)`
const LISTEN_AGAIN_MS = 1000
/** Names a notification by which a process finds out whether it hears any. Others ignore it. */
const PROBE = 'probe'
/** A connection on which only the server sends may die unnoticed, so it is probed at this interval of real time. */
const PROBE_EVERY_MS = 5000
/** Without NOTIFY the store looks for others' work at this interval. */
const POLL_MS = 250

/** Notifications between processes: NOTIFY off the commit path, merged, and never relied upon. */
export class Notifier {
  readonly #db: PostgresDatabase
  readonly #clock: Clock
  readonly #enabled: boolean
  readonly #own = randomUUID()
  readonly #listeners = new Set<(change: Change, isOwn: boolean) => void>()
  readonly #warned = new Set<(error: SluiceError) => void>()
  #isUnheard = false
  readonly #sent = new Map<Change, { readonly timer: Timer; again: boolean }>()
  #timer: Timer | null = null
  #probe: Timer | null = null
  #client: PgPoolClient | null = null
  #connecting = 0
  #closed = false

  constructor(db: PostgresDatabase, clock: Clock, notify: boolean) {
    this.#db = db
    this.#clock = clock
    this.#enabled = notify
  }

  /** It is about to listen, and then tells that anything may have changed: at an instant that a manual clock decides. */
  get pending(): boolean {
    return this.#connecting > 0
  }

  /** Reports a commit to this process at once, and to others soon. @param told the others were told behind the commit */
  notify(change: Exclude<Change, 'any'>, told = false): void {
    if (this.#closed) return
    this.#tell(change, true)
    if (!this.#enabled || told) return
    const sent = this.#sent.get(change)
    if (sent) sent.again = true
    else this.#send(change)
  }

  /**
   * Notifies the others right behind the next statement of a connection, before its answer has come back. False: they
   * were notified just now, or the connection cannot.
   */
  notifyBehind(db: Statements, change: Exclude<Change, 'any'>): boolean {
    if (this.#closed || !this.#enabled || !db.behind || this.#sent.has(change)) return false
    this.#merge(change)
    db.behind(NOTIFY, this.#payload(change))
    return true
  }

  #send(change: Exclude<Change, 'any'>): void {
    this.#merge(change)
    this.#db.all(NOTIFY, this.#payload(change)).catch(ignore)
  }

  #payload(change: Change | typeof PROBE): string {
    return `${this.#own} ${change} ${this.#db.schema}`
  }

  /** From now on, notifications are merged into one. */
  #merge(change: Exclude<Change, 'any'>): void {
    const timer = this.#clock.setTimer(() => {
      const again = this.#sent.get(change)?.again
      this.#sent.delete(change)
      if (again && !this.#closed) this.#send(change)
    }, COALESCE_MS[change])
    timer.unref?.()
    this.#sent.set(change, { timer, again: false })
  }

  /** Notifies all processes, with this one, when the caller's transaction commits. */
  async notifyWithin(db: Statements): Promise<void> {
    if (this.#enabled) await db.run(`SELECT pg_notify('sluice', $1)`, `tx work ${this.#db.schema}`)
  }

  watch(listener: (change: Change, isOwn: boolean) => void, warned: (error: SluiceError) => void = ignore): () => void {
    this.#listeners.add(listener)
    this.#warned.add(warned)
    if (this.#isUnheard) warned(unheard())
    if (this.#listeners.size === 1) this.#begin()
    return () => {
      this.#listeners.delete(listener)
      this.#warned.delete(warned)
      if (this.#listeners.size === 0) this.#end()
    }
  }

  close(): void {
    this.#closed = true
    for (const { timer } of this.#sent.values()) timer.cancel()
    this.#end()
  }

  #begin(): void {
    if (this.#enabled) void this.#listen()
    else this.#poll()
  }

  #end(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#probe?.cancel()
    if (this.#client) this.#db.letGo(this.#client)
    this.#client = null
  }

  #poll(): void {
    this.#timer = this.#clock.setTimer(() => {
      this.#tell('any')
      this.#poll()
    }, POLL_MS)
    this.#timer.unref?.()
  }

  async #listen(): Promise<void> {
    this.#connecting++
    try {
      const { client, statements } = await this.#db.reserve()
      if (this.#closed || this.#listeners.size === 0 || this.#client) return this.#db.letGo(client)
      this.#client = client
      let isHeard = false
      client.on('notification', ({ payload = '' }: PgEvent) => {
        const [from, change, ...schema] = payload.split(' ')
        if (change === PROBE) isHeard ||= from === this.#own
        if (
          change === PROBE ||
          from === this.#own ||
          schema.join(' ').replaceAll('"', '') !== this.#db.schema.replaceAll('"', '')
        )
          return
        this.#tell(change === 'cancelled' || change === 'ended' ? change : 'work')
      })
      client.on('error', () => this.#listenAgain(client))
      await statements.script('LISTEN sluice')
      this.#probeLater(client, statements)
      // Notifications may have been lost while the connection was down.
      this.#tell('any')
      void this.#check(statements, () => isHeard).catch(ignore)
    } catch {
      this.#listenAgain(this.#client)
    } finally {
      this.#connecting--
    }
  }

  /**
   * Checks that a notification comes. A pooler that lends the server's connection to others after each transaction
   * takes LISTEN and says nothing. A session gets its notifications before the answer to any later statement, so a
   * slow server is not mistaken for that.
   */
  async #check(statements: Statements, isHeard: () => boolean): Promise<void> {
    await this.#db.all(NOTIFY, this.#payload(PROBE))
    await statements.script('SELECT 1')
    if (isHeard() || this.#isUnheard || this.#closed) return
    this.#isUnheard = true
    for (const warned of this.#warned) warned(unheard())
  }

  #probeLater(client: PgPoolClient, statements: Statements): void {
    if (client !== this.#client) return
    this.#probe = systemClock.setTimer(() => {
      statements.script('SELECT 1').then(
        () => this.#probeLater(client, statements),
        () => this.#listenAgain(client),
      )
    }, PROBE_EVERY_MS)
    this.#probe.unref?.()
  }

  #listenAgain(client: PgPoolClient | null): void {
    if (client !== this.#client) return
    this.#probe?.cancel()
    if (client) this.#db.letGo(client)
    this.#client = null
    if (this.#closed || this.#listeners.size === 0) return
    this.#timer = this.#clock.setTimer(() => void this.#listen(), LISTEN_AGAIN_MS)
    this.#timer.unref?.()
  }

  #tell(change: Change, isOwn = false): void {
    for (const listener of this.#listeners) listener(change, isOwn)
  }
}

function unheard(): SluiceError {
  return new SluiceError(
    'store.notify.lost',
    'The store hears no notification of other processes: LISTEN is lost, as behind pgBouncer in transaction mode. Jobs of other processes wait for up to 5 s. Write ?notify=false in the URL of the store (notify: false of createPostgresStore), or connect to the server itself.',
  )
}

function ignore(): void {
  // Timers make up for a failed notification.
}
