import { SluiceError } from '../base/errors.ts'
import { checkMethods, checkOptions, show } from '../base/options.ts'
import { Sluice } from '../engine/engine.ts'
import type { Clock } from '../base/clock.ts'
import type { Logger } from '../base/logger.ts'
import type { Policy } from '../policy/limits/policy.ts'
import type { Bounds } from './bounds.ts'
import type { ServedLimits } from './limit-rules.ts'
import type { Token } from './token.ts'

/** How a server is made. */
export interface HttpOptions {
  /** The engine that it serves; started and stopped by whoever made it. */
  readonly sluice: Sluice
  /** Who may do what; without any everybody may do everything: for servers that only this host can reach. */
  readonly tokens?: readonly Token[]
  /** Limits that jobs are held to by their type, queue and tenant, beside those of the engine's own tasks. */
  readonly limits?: ServedLimits
  /** The names that the server goes by while it has no tokens, so that no page whose own name was pointed here acts on it; any by default. */
  readonly isHost?: (host: string) => boolean
  /** The engine's clock, where that is not the system's. */
  readonly clock?: Clock
  /** Any pino-like object; nothing is logged by default. */
  readonly logger?: Logger
  /** The largest body, in bytes; 16 MiB by default. */
  readonly maxBodyBytes?: number
  /** How many requests each token may make of this process, or all callers without tokens; by default as many as they like. */
  readonly requests?: Policy
  /** How much one tenant, one token and one answer may take up; each has a default. */
  readonly bounds?: Bounds
  /** What the suites need beside the specification: directives in jobs, and a way to empty the store. */
  readonly testMode?: boolean
  /** Which backend the store is, for the manifest. */
  readonly backend?: string
}

const KNOWN = [
  'sluice',
  'tokens',
  'limits',
  'isHost',
  'clock',
  'logger',
  'maxBodyBytes',
  'requests',
  'bounds',
  'testMode',
  'backend',
] as const

/** Checks how a server is made; tokens, limits and the budget of requests are checked where they are read. @throws option.invalid */
export function checkHttpOptions(options: HttpOptions): void {
  const what = 'createHttpApp'
  checkOptions(options, KNOWN, what, { meant: { engine: 'sluice', token: 'tokens', auth: 'tokens' } })
  const { sluice, tokens, isHost, clock, logger, maxBodyBytes, testMode, backend } = options
  const wrong = (name: string, value: unknown, remedy: string): SluiceError =>
    new SluiceError('option.invalid', `${name} of ${what} is ${show(value)}; give ${remedy}`)
  if (!(sluice instanceof Sluice)) throw wrong('sluice', sluice, 'the engine that it serves')
  // Without tokens everybody may do everything: a list that failed to load must not read as none.
  if (tokens !== undefined && !Array.isArray(tokens)) throw wrong('tokens', tokens, 'a list of tokens')
  if (isHost !== undefined && typeof isHost !== 'function') throw wrong('isHost', isHost, 'a function')
  if (clock !== undefined) checkMethods(clock, ['now', 'monotonicUs', 'setTimer'], `clock of ${what}`)
  if (logger !== undefined) checkMethods(logger, ['debug', 'info', 'warn', 'error'], `logger of ${what}`)
  if (maxBodyBytes !== undefined && !(Number.isSafeInteger(maxBodyBytes) && maxBodyBytes >= 1))
    throw wrong('maxBodyBytes', maxBodyBytes, 'a whole number of bytes, 1 or more')
  if (testMode !== undefined && typeof testMode !== 'boolean') throw wrong('testMode', testMode, 'true or false')
  if (backend !== undefined && typeof backend !== 'string') throw wrong('backend', backend, 'a text')
}
