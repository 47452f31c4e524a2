import { SluiceError } from '../base/errors.ts'
import { checkMethods, checkOptions, show } from '../base/options.ts'
import { Sluice } from '../engine/engine.ts'
import type { Clock } from '../base/clock.ts'
import { checkBackend } from '../limiter/client/options.ts'
import type { LimitBackend } from '../limiter/contract/limiter.ts'
import type { Logger } from '../base/logger.ts'
import type { Policy } from '../policy/limits/policy.ts'
import type { Bounds } from './bounds.ts'
import type { ServedLimits } from './limit-rules.ts'
import type { Redact } from './monitor/redact.ts'
import type { Token } from './token.ts'

/** The options of a server. */
export interface HttpOptions {
  /** The engine behind the server; the caller starts and stops it. */
  readonly sluice: Sluice
  /**
   * The tokens and their rights. Without tokens every caller has full access: only for servers that this host alone can
   * reach.
   */
  readonly tokens?: readonly Token[]
  /** Limits for jobs by their type, queue and tenant, beside those of the engine's own tasks. */
  readonly limits?: ServedLimits
  /**
   * Returns whether a host name is the server's; by default any is. A server without tokens uses it to refuse a web
   * page
   * whose own name was pointed at the server.
   */
  readonly isHost?: (host: string) => boolean
  /**
   * Where the budgets of `/limiter/v1` live: `memory:`, `redis://host`, `nats://host`, or a backend. Default: the store,
   * where they are those of its jobs.
   */
  readonly budgets?: string | LimitBackend
  /** The engine's clock; default: the system's. */
  readonly clock?: Clock
  /** Any pino-like object; default: no log. */
  readonly logger?: Logger
  /** The largest body, in bytes; default 16 MiB. */
  readonly maxBodyBytes?: number
  /** The request budget of each token on this process. All callers without tokens share one. Default: unlimited. */
  readonly requests?: Policy | string
  /** The bounds of one tenant, one token and one answer; each has a default. */
  readonly bounds?: Bounds
  /**
   * The monitor hides these in payloads, results and metadata: values of these keys, beside those that look like secrets;
   * or a function `(path, value) => shown`; or false, nothing.
   */
  readonly redact?: Redact
  /** Extensions for test suites: directives in jobs, and an operation that empties the store; default false. */
  readonly testMode?: boolean
  /** The backend of the store, for the manifest. */
  readonly backend?: string
}

const KNOWN = [
  'sluice',
  'tokens',
  'limits',
  'budgets',
  'isHost',
  'clock',
  'logger',
  'maxBodyBytes',
  'requests',
  'bounds',
  'redact',
  'testMode',
  'backend',
] as const

/**
 * Checks a server's options. Tokens, limits and the request budget are checked where they are read.
 * @throws {SluiceError} `option.invalid`
 */
export function checkHttpOptions(options: HttpOptions): void {
  const what = 'createHttpApp'
  checkOptions(options, KNOWN, what, { aliases: { engine: 'sluice', token: 'tokens', auth: 'tokens' } })
  const { sluice, tokens, budgets, isHost, clock, logger, maxBodyBytes, testMode, backend } = options
  const wrong = (name: string, value: unknown, expected: string): SluiceError =>
    new SluiceError('option.invalid', `${name} of ${what} is invalid: ${show(value)}. Expected ${expected}.`)
  if (!(sluice instanceof Sluice)) throw wrong('sluice', sluice, 'an engine')
  // Without tokens every caller has full access, so a list that failed to load must not pass as no tokens.
  if (tokens !== undefined && !Array.isArray(tokens)) throw wrong('tokens', tokens, 'a list of tokens')
  if (budgets !== undefined && typeof budgets !== 'string') checkBackend(budgets, `budgets of ${what}`)
  if (isHost !== undefined && typeof isHost !== 'function') throw wrong('isHost', isHost, 'a function')
  if (clock !== undefined) checkMethods(clock, ['now', 'monotonicUs', 'setTimer'], `clock of ${what}`)
  if (logger !== undefined) checkMethods(logger, ['debug', 'info', 'warn', 'error'], `logger of ${what}`)
  if (maxBodyBytes !== undefined && !(Number.isSafeInteger(maxBodyBytes) && maxBodyBytes >= 1))
    throw wrong('maxBodyBytes', maxBodyBytes, 'a whole number of bytes, 1 or more')
  if (testMode !== undefined && typeof testMode !== 'boolean') throw wrong('testMode', testMode, 'true or false')
  if (backend !== undefined && typeof backend !== 'string') throw wrong('backend', backend, 'a text')
}
