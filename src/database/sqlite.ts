import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs'
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import { systemClock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import { openDatabase } from './node-sqlite.ts'
import { isBusy, textOf, wrapError } from './sqlite-error.ts'

/** In which order the requests of one transaction run: what frees room first, what takes it last. */
export type Phase = 0 | 1 | 2

/** Options of a connection. */
export interface SqliteOptions {
  /** A file path, or `:memory:`. */
  readonly path: string
  /** Sync the log before a request is answered. */
  readonly sync: boolean
  /** How long a request waits for a file that another process locks, in ms; 10 s by default. */
  readonly busyMs?: number
}

interface Request {
  readonly turn: Phase
  run(): void
  resolve(): void
  reject(error: unknown): void
}

/** So long one try for the lock may hold up the main thread. */
const BUSY_WAIT_MS = 20
/** Tries come closer together at first. */
const BUSY_PAUSE_STEP_MS = 2
const BUSY_MS = 10_000
/** So long the opening of a file may hold up the main thread. */
const OPEN_BUSY_MS = 5000
/** A log that grew under a long reader is cut back to this size, far above what it has between two checkpoints. */
const LOG_BYTES = 16 << 20
/** After a sync that took less than this, the next runs on the main thread: another would take as long to be woken. */
const QUICK_SYNC_US = 500
/** Up to this, it also runs there if the last sync took less than the commit that it follows: that one held it up longer. */
const BRIEF_SYNC_US = 2000

/**
 * One connection to a SQLite file with group commit: requests made during a commit share the next one.
 *
 * A commit appends to the write-ahead log on this thread and never waits for the disk. With `sync` the log is then
 * synced once before the answer to any of the commit's requests: on this thread if that is quick, else in the background.
 */
export class SqliteConnection {
  readonly #db: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()
  readonly #durable: boolean
  /** The file as it was given. */
  readonly path: string
  readonly #busyMs: number
  readonly #rollbackListeners: (() => void)[] = []
  /** How long the last sync took. */
  #syncUs = Infinity
  /** How long the last commit took, without its sync. */
  #commitUs = 0
  #log: number | null = null
  #waiting: Request[] = []
  #busy: { readonly sinceUs: number; tries: number } | null = null
  #flushing = false
  #closed = false
  #failure: SluiceError | null = null
  #idle: (() => void)[] = []

  constructor(options: SqliteOptions) {
    this.path = options.path
    this.#busyMs = options.busyMs ?? BUSY_MS
    this.#durable = options.sync && options.path !== ':memory:'
    createPrivately(options.path)
    try {
      this.#db = openDatabase(options.path)
      this.#db.exec(`PRAGMA busy_timeout = ${OPEN_BUSY_MS}; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
        PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536;
        PRAGMA journal_size_limit = ${LOG_BYTES}; PRAGMA busy_timeout = ${BUSY_WAIT_MS}`)
    } catch (cause) {
      if (isBusy(cause))
        throw new SluiceError(
          'store.busy',
          `Another process has kept ${this.path} locked for ${OPEN_BUSY_MS / 1000} s while it was opened. Look for a stopped process or a long transaction on the file.`,
          { cause, lasts: 'passes' },
        )
      throw new SluiceError(
        'store.io',
        `Cannot open the SQLite file ${options.path}: ${textOf(cause)}. Check the path and its permissions.`,
        { cause },
      )
    }
  }

  /** Runs SQL that returns nothing, at once, outside the group commit: for migrations. */
  exec(sql: string): void {
    this.#db.exec(sql)
  }

  /** Defines a function of SQL whose answer may change from call to call. */
  define(name: string, answer: () => number): void {
    this.#db.function(name, answer)
  }

  /** A prepared statement whose rows come back as arrays, cached by its text. */
  prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql)
    if (!statement) {
      statement = this.#db.prepare(sql)
      statement.setReturnArrays(true)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  /** All rows of a query, as arrays. */
  all<Row extends readonly unknown[]>(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.prepare(sql).all(...values) as unknown as Row[]
  }

  /** The first row of a query, as an array. */
  get<Row extends readonly unknown[]>(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.prepare(sql).get(...values) as unknown as Row | undefined
  }

  /** Runs a statement for its effect. @returns the number of rows changed */
  run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.prepare(sql).run(...values).changes)
  }

  /** Calls the listener after each rollback: values remembered inside the transaction are void. */
  onRollback(listener: () => void): void {
    this.#rollbackListeners.push(listener)
  }

  /**
   * Runs `work` inside the next transaction and resolves once that is durable. `work` may run twice. If another request
   * of the same transaction fails, all roll back and each runs again in a transaction of its own. An error of `work`
   * rejects the call.
   * @throws {SluiceError} `store.busy` when other processes lock the file for 10 s
   * @throws {SluiceError} `store.io`
   */
  write<T>(turn: Phase, work: () => T): Promise<T> {
    if (this.#closed) return Promise.reject(this.#closedError())
    if (this.#failure) return Promise.reject(this.#failure)
    return new Promise<T>((resolve, reject) => {
      let result: T
      this.#waiting.push({ turn, run: () => (result = work()), resolve: () => resolve(result), reject })
      this.#schedule()
    })
  }

  /** Whether the database lives in memory: it ends with this connection, and no other process sees it. */
  get inMemory(): boolean {
    return this.path === ':memory:'
  }

  /** How many rows this connection has changed so far. */
  get changes(): number {
    return (this.get<[number]>('SELECT total_changes()') as [number])[0]
  }

  /** A number that changes when another connection has committed; null while that one keeps it from being read. */
  get dataVersion(): number | null {
    try {
      return (this.get<[number]>('PRAGMA data_version') as [number])[0]
    } catch (error) {
      if (isBusy(error)) return null
      throw error
    }
  }

  /** True while a request waits for its answer. */
  get pending(): boolean {
    return this.#flushing || this.#waiting.length > 0
  }

  /**
   * Finishes pending requests, then closes the file.
   * @param now waits for nothing: unwritten requests fail, and a running sync closes the file when it ends
   */
  async close(now = false): Promise<void> {
    if (now) {
      this.#closed = true
      for (const request of this.#waiting.splice(0)) request.reject(this.#closedError())
    }
    const idle = this.pending ? new Promise<void>((resolve) => this.#idle.push(resolve)) : Promise.resolve()
    const closing = idle.then(() => this.#closeFile())
    if (!now) await closing
  }

  #closeFile(): void {
    this.#closed = true
    if (!this.#db.isOpen) return
    if (this.#log !== null) closeSync(this.#log)
    this.#statements.clear()
    this.#db.close()
  }

  #schedule(): void {
    if (this.#flushing) return
    this.#flushing = true
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    const requests = this.#waiting
    this.#waiting = []
    // A close that does not wait has refused them.
    if (requests.length === 0) return this.#answer([], null)
    if (requests.length > 1) requests.sort((a, b) => a.turn - b.turn)
    const changesBefore = areClaims(requests) ? this.changes : null
    const startUs = systemClock.monotonicUs()
    try {
      this.#transaction(requests)
    } catch (error) {
      if (isBusy(error)) return this.#retryLater(requests, error)
      if (requests.length > 1) return this.#finish(this.#oneByOne(requests), changesBefore)
      requests[0]?.reject(wrapError(error, this.path))
      return this.#finish([], changesBefore)
    }
    this.#busy = null
    this.#commitUs = systemClock.monotonicUs() - startUs
    this.#finish(requests, changesBefore)
  }

  #transaction(requests: readonly Request[]): void {
    this.prepare('BEGIN IMMEDIATE').run()
    try {
      for (const request of requests) request.run()
      this.prepare('COMMIT').run()
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      for (const listener of this.#rollbackListeners) listener()
      throw error
    }
  }

  /** One request of a transaction failed: the others must not suffer, so each gets its own. */
  #oneByOne(requests: readonly Request[]): Request[] {
    return requests.filter((request) => {
      try {
        this.#transaction([request])
        return true
      } catch (error) {
        if (isBusy(error)) this.#waiting.push(request)
        else request.reject(wrapError(error, this.path))
        return false
      }
    })
  }

  #retryLater(requests: Request[], cause: unknown): void {
    const nowUs = systemClock.monotonicUs()
    const busy = (this.#busy ??= { sinceUs: nowUs, tries: 0 })
    busy.tries++
    if (nowUs - busy.sinceUs >= this.#busyMs * 1000) {
      this.#busy = null
      const error = new SluiceError(
        'store.busy',
        `Another process has kept ${this.path} locked for ${this.#busyMs / 1000} s. Look for a stopped process or a long transaction on the file.`,
        { cause, lasts: 'passes' },
      )
      for (const request of requests) request.reject(error)
      return this.#finish([], this.changes)
    }
    this.#waiting = [...requests, ...this.#waiting]
    setTimeout(() => this.#flush(), Math.min(BUSY_WAIT_MS, BUSY_PAUSE_STEP_MS * busy.tries))
  }

  /** @param changesBefore null: the requests were not claims alone */
  #finish(requests: readonly Request[], changesBefore: number | null): void {
    // A claim that finds no work needs no sync. Any other answer may rest on another process's unsynced commit.
    const idle = areClaims(requests) && (requests.length === 0 || this.changes === changesBefore)
    if (!this.#durable || idle) return this.#answer(requests, null)
    const startUs = systemClock.monotonicUs()
    const synced = (error: unknown): void => {
      this.#syncUs = systemClock.monotonicUs() - startUs
      this.#answer(requests, error)
    }
    try {
      const log = this.#logFile()
      const quickUs = Math.max(QUICK_SYNC_US, Math.min(this.#commitUs, BRIEF_SYNC_US))
      if (this.#syncUs >= quickUs) return fdatasync(log, synced)
      fdatasyncSync(log)
    } catch (error) {
      return synced(error)
    }
    synced(null)
  }

  #answer(requests: readonly Request[], error: unknown): void {
    this.#flushing = false
    if (error) {
      // The kernel may have dropped the pages: a later sync that succeeds would prove nothing, so this connection ends here.
      const failure = new SluiceError(
        'store.io',
        `The disk refused to sync ${this.path}: ${textOf(error)}. The last requests may or may not be stored. Check the disk, then restart.`,
        { cause: error, lasts: 'final' },
      )
      this.#failure = failure
      for (const request of [...requests, ...this.#waiting.splice(0)]) request.reject(failure)
    } else for (const request of requests) request.resolve()
    if (this.#waiting.length > 0) this.#schedule()
    else for (const resolve of this.#idle.splice(0)) resolve()
  }

  // SQLite locks the database and -shm files, not the log. Closing our own descriptor of the log drops none of its
  // locks.
  #logFile(): number {
    this.#log ??= openSync(`${this.path}-wal`, 'r+')
    return this.#log
  }

  #closedError(): SluiceError {
    return new SluiceError('engine.stopped', `The store ${this.path} is closed. Create a new engine to go on.`)
  }
}

function areClaims(requests: readonly Request[]): boolean {
  return requests.every((request) => request.turn === 2)
}

/** Makes a new file that its owner alone may read: jobs hold what others must not see. SQLite gives its log the same mode. */
function createPrivately(path: string): void {
  if (path === '' || path === ':memory:' || path.startsWith('file:')) return
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch {
    // It is there already, or cannot be made: SQLite says so when it opens it.
  }
}
