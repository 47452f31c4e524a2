import { type Clock, systemClock } from '../../base/clock.ts'
import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkMethods, checkOptions, ownNames, show } from '../../base/options.ts'
import { isName } from '../../base/text.ts'
import type { Limit } from '../../policy/limits/define.ts'
import type { LimitBackend } from '../contract/limiter.ts'

/** The fate of calls while the backend cannot be reached: they wait, or they go on without a budget. */
export type FailMode = 'closed' | 'open'

/** The options of `createLimiter`. */
export interface LimiterOptions {
  /**
   * `memory:`, `redis://host`, `rediss://host`, `redis+cluster://host`, `redis+sentinel://host/name`, `nats://host`, the
   * address of a store (`sqlite:./file.db`, `postgres://…`), or a backend. On a store, the limits are those of its jobs.
   */
  backend: string | LimitBackend
  /** The limits that its calls use. */
  limits: readonly Limit[]
  /**
   * Separates limiters that share a server: 1 to 255 characters; default `sluice`. On a store it stands before the names
   * of limits, as in `acme/crm`; by default nothing does.
   */
  namespace?: string
  /** The most calls that wait at once; default 10,000. Further ones get `limiter.full`. */
  maxWaiting?: number
  /** A permit of a process that died returns after this time; 300 ms or more, default 30 s. */
  lease?: Duration
  /**
   * While the backend cannot be reached: `closed` (default) lets calls wait or be rejected; `open` lets them go on
   * without a budget. One for all limits, or one for each by name.
   */
  failMode?: FailMode | Readonly<Record<string, FailMode>>
  /** Default: the clocks of this machine. */
  clock?: Clock
}

/** The options, checked. */
export interface CheckedOptions {
  readonly backend: string | LimitBackend
  readonly limits: readonly Limit[]
  /** Null: none is given. */
  readonly namespace: string | null
  readonly maxWaiting: number
  readonly leaseUs: number
  readonly failMode: FailModes
  readonly clock: Clock
  /** A use defines its limit, as it does for jobs. Absent: limits are listed. */
  readonly adopts?: true
}

const NAMES = ['backend', 'limits', 'namespace', 'maxWaiting', 'lease', 'failMode', 'clock']
const MOST_WAITING = 10_000
const LEASE_US = 30_000_000
const SHORTEST_LEASE_US = 300_000

/** Checks the options of `createLimiter`. @throws {SluiceError} `option.invalid`, `duration.invalid` */
export function checkLimiterOptions(options: LimiterOptions): CheckedOptions {
  checkOptions(options, NAMES, 'createLimiter')
  const { backend, limits, namespace = null, maxWaiting = MOST_WAITING, clock = systemClock } = options
  if (typeof backend !== 'string') checkBackend(backend)
  if (namespace !== null && !isName(namespace))
    throw invalid('namespace', namespace, 'Expected 1 to 255 characters, without NUL and half surrogate pairs.')
  if (!Number.isSafeInteger(maxWaiting) || maxWaiting < 1)
    throw invalid('maxWaiting', maxWaiting, 'Expected a whole number of at least 1.')
  checkMethods(clock, ['now', 'monotonicUs', 'setTimer'], 'clock of createLimiter')
  const leaseUs = options.lease === undefined ? LEASE_US : durationUs(options.lease, 'lease of createLimiter')
  if (leaseUs < SHORTEST_LEASE_US) throw invalid('lease', options.lease, "Expected at least '300ms'.")
  return { backend, limits, namespace, maxWaiting, leaseUs, failMode: failModeOf(options.failMode), clock }
}

const VERBS = [
  'define',
  'acquire',
  'reserve',
  'confirm',
  'cancel',
  'release',
  'extend',
  'charge',
  'penalize',
  'calibrate',
  'change',
  'inspect',
  'forget',
  'close',
]

/** Checks that a value has every verb of a backend. @throws {SluiceError} `option.invalid` */
export function checkBackend(backend: unknown, what = 'The backend of a limiter'): void {
  checkMethods(backend, VERBS, what)
}

/** The fail modes of limits. */
export interface FailModes {
  (limit: string): FailMode
  /** The limits that are named. */
  readonly names: readonly string[]
}

/** Reads a fail mode. @throws {SluiceError} `option.invalid` */
export function failModeOf(given: unknown = 'closed', what = 'createLimiter'): FailModes {
  if (isFailMode(given)) return Object.assign(() => given, { names: [] })
  const modes = ownNames(given) === null ? null : new Map(Object.entries(given as object))
  if (!modes || ![...modes.values()].every(isFailMode))
    throw new SluiceError(
      'option.invalid',
      `failMode of ${what} is invalid: ${show(given)}. Expected 'closed', 'open', or one of them for each limit by name.`,
    )
  const modeOf = (limit: string): FailMode => (modes.get(limit) as FailMode | undefined) ?? 'closed'
  return Object.assign(modeOf, { names: [...modes.keys()] })
}

function isFailMode(value: unknown): value is FailMode {
  return value === 'closed' || value === 'open'
}

function invalid(name: string, value: unknown, expected: string): SluiceError {
  return new SluiceError('option.invalid', `${name} of createLimiter is invalid: ${show(value)}. ${expected}`)
}
