/** The verbs of a limiter for starts that are booked. */
import type { Clock } from '../../base/clock.ts'
import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, checkText, show } from '../../base/options.ts'
import { checkPriority } from '../../base/priority.ts'
import { isName, LONGEST_NAME } from '../../base/text.ts'
import { RateLimitRejected } from '../../jobs/handler-errors.ts'
import type { BucketUse, Granted, LimitBackend } from '../contract/limiter.ts'
import type { Confirmed, Reservation } from './calls.ts'
import type { Permit } from './permit.ts'
import type { LimiterLimits, Use } from './uses.ts'
import { unknown } from './waiter.ts'

/** The options of `reserve`. */
export interface ReserveOptions {
  /** A later start is refused. */
  atMost: Duration
  /** −100 to 100, default 0: it decides about the headroom alone. */
  priority?: number
  /** Names the reservation, 1 to 255 characters; default: a new name. */
  id?: string
}

/** The parts of a limiter that its reservations need. */
export interface ReservationParts {
  readonly limits: LimiterLimits
  readonly clock: Clock
  readonly leaseUs: number
  readonly newId: () => string
  /** Calls the backend. @param late gets an answer that came after the call had failed */
  readonly call: <T>(work: (backend: LimitBackend) => Promise<T>, late?: (answer: T) => unknown) => Promise<T>
  readonly started: (uses: readonly BucketUse[], granted: Granted) => Permit
  /** Gives back a start that no caller uses. */
  readonly giveBack: (uses: readonly BucketUse[], granted: Granted) => Promise<void>
}

/** The reservations of a limiter. */
export class Reservations {
  readonly #options: ReservationParts
  /** The buckets of those without a name of the caller's. */
  readonly #reserved = new Map<string, readonly BucketUse[]>()

  constructor(options: ReservationParts) {
    this.#options = options
  }

  /** Books the exact next start. */
  async reserve(uses: readonly Use[], options: ReserveOptions): Promise<Reservation> {
    checkOptions(options, ['atMost', 'priority', 'id'], 'limiter.reserve')
    const { limits, leaseUs, clock, newId, call } = this.#options
    const { id, priority = 0 } = options
    if (id !== undefined && !isName(id))
      throw new SluiceError(
        'option.invalid',
        `id of limiter.reserve is invalid: ${show(id)}. Expected 1 to ${LONGEST_NAME} characters, without NUL and half surrogate pairs.`,
      )
    const buckets = limits.resolve(uses, 'limiter.reserve')
    const atMostUs = durationUs(options.atMost, 'atMost of limiter.reserve')
    const permit = id ?? newId()
    const request = { uses: buckets, priority: checkPriority(priority, 'limiter.reserve'), line: 0, permit, leaseUs }
    const answer = await call(
      async (backend) => {
        const reserved = await backend.reserve(request, atMostUs)
        if (reserved.kind === 'unknown') throw unknown(reserved.limit)
        return reserved
      },
      // Another process may confirm a named one.
      ({ kind }) => kind === 'booked' && id === undefined && this.cancel(permit).catch(() => undefined),
    )
    if (answer.kind === 'booked') {
      if (id === undefined) this.#reserved.set(answer.id, buckets)
      return { id: answer.id, startAfterMs: answer.startAfterUs / 1000 }
    }
    const { by, retryAfterUs } = answer
    const expected = retryAfterUs === null ? null : new Date(clock.now() + retryAfterUs / 1000)
    throw new RateLimitRejected(by.limit, by.key, expected, limits.policy(by.limit))
  }

  /** Asks at the start of a reservation whether it stands. */
  async confirm(id: string, uses?: readonly Use[]): Promise<Confirmed> {
    // No backend can hold such an id.
    if (!isName(checkText(id, 'The id of limiter.confirm'))) return { kind: 'gone' }
    const { limits, call, giveBack, started } = this.#options
    const named = uses && limits.resolve(uses, 'limiter.confirm')
    const buckets = named ?? this.#reserved.get(id) ?? []
    const answer = await call(
      (backend) => backend.confirm(id),
      (late) => late.kind === 'granted' && giveBack(buckets, late),
    )
    if (answer.kind === 'wait') return { kind: 'wait', startAfterMs: answer.startAfterUs / 1000 }
    this.#reserved.delete(id)
    return answer.kind === 'gone' ? answer : { kind: 'go', permit: started(buckets, answer) }
  }

  /** Gives a reservation back. False: it is gone. */
  async cancel(id: string): Promise<boolean> {
    if (!isName(checkText(id, 'The id of limiter.cancel'))) return false
    this.#reserved.delete(id)
    return this.#options.call((backend) => backend.cancel(id))
  }
}
