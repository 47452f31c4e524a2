import { ClientOfflineError, ConnectionTimeoutError, SocketClosedUnexpectedlyError } from 'redis'
import { systemClock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import { settlesWithin } from '../../base/promises.ts'

/** The calls wait for the first attempt no longer than this. Clients try again without end, also in vain. */
const ATTEMPT_MS = 2000

/** A connection while it is being made; the calls wait for it, and each tells its own failure. */
export class Connecting {
  readonly #tls: boolean
  #now: Promise<void> | null = null
  #over: () => void = () => undefined
  #hasConnected = false
  /** Why there is no connection; null: there is one, or the first attempt has not ended. */
  #failure: unknown = null

  /** @param tls the address wants an encrypted connection */
  constructor(tls: boolean) {
    this.#tls = tls
  }

  readonly failed = (error: unknown): void => {
    // A sentinel also tells its failures as texts.
    if (!(error instanceof Error)) return
    this.#failure = this.#told(error)
    this.#over()
  }

  readonly made = (): void => {
    this.#failure = null
    this.#hasConnected = true
    this.#over()
  }

  /** Begins an attempt, which ends with the first failure, or when it takes too long. */
  begin(connected: Promise<unknown>): void {
    const over = new Promise<void>((resolve) => (this.#over = resolve))
    connected.then(this.made, (error: unknown) => {
      this.#failure ??= error
      this.#over()
    })
    this.#now = this.#ended(over)
  }

  async #ended(over: Promise<void>): Promise<void> {
    if (!(await settlesWithin(systemClock, over, ATTEMPT_MS))) this.#failure ??= this.#late()
    this.#now = null
  }

  get isUnderWay(): boolean {
    return this.#now !== null
  }

  async done(): Promise<void> {
    if (this.#now) await this.#now
  }

  /** The reason of a failed call. A client without a connection names none. */
  reason(error: unknown): unknown {
    return error instanceof ClientOfflineError ? (this.#failure ?? error) : error
  }

  /** Refuses a call of a client that would wait for its first connection without end. */
  requireConnected(): void {
    if (!this.#hasConnected) throw this.#failure
  }

  /** A failure in words that say what was expected; the client's own, where those do. */
  #told(error: Error): Error {
    if (error instanceof ConnectionTimeoutError) return this.#late()
    if (isClosing(error) && !this.#tls && !this.#hasConnected)
      return new Error('the server closed the connection. One with TLS does so: its address begins with rediss', {
        cause: error,
      })
    if (error.message.startsWith("ERR unknown command 'SENTINEL'"))
      return invalid(
        'no sentinel answers there, but a Redis. Name the port of a sentinel, as in redis+sentinel://host:26379/mymaster, or the server itself as redis://host:6379.',
        error,
      )
    if (error.message.includes('cluster support disabled'))
      return invalid('the Redis there is no part of a cluster. Name it as redis://host:6379.', error)
    return error
  }

  #late(): Error {
    const tls = '. An address that begins with rediss needs a port with TLS; another port never answers'
    return new Error(`no answer within ${ATTEMPT_MS} ms${this.#tls ? tls : ''}`)
  }
}

/** The server ended the connection; one that had not read all that was sent resets it. */
function isClosing(error: Error): boolean {
  return error instanceof SocketClosedUnexpectedlyError || ('code' in error && error.code === 'ECONNRESET')
}

function invalid(message: string, cause: Error): SluiceError {
  return new SluiceError('limiter.url.invalid', `The address of the limiter is wrong: ${message}`, { cause })
}
