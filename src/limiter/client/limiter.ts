import { EventEmitter } from 'node:events'
import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { systemRandom } from '../../base/random.ts'
import type { Answer } from '../../jobs/header-source.ts'
import { RateLimitRejected } from '../../jobs/handler-errors.ts'
import { isRateLimited } from '../../jobs/rate-limited.ts'
import type { Limit } from '../../policy/limits/define.ts'
import { MAX_UNITS } from '../../policy/limits/normalise.ts'
import { changeInText, type PolicyChange } from '../../policy/limits/override.ts'
import { NO_POLICY } from '../../policy/limits/timeline.ts'
import type { BackendLoader, BucketName, BucketUse, Confirmation, LimitBackend } from '../contract/limiter.ts'
import { Access } from './access.ts'
import { bucketView, type ChangeOptions, changeOf, type LimiterBucket } from './controls.ts'
import { Feedback } from './feedback.ts'
import { type FetchOptions, limitedFetch } from './fetch.ts'
import { Lines } from './lines.ts'
import type { CheckedOptions } from './options.ts'
import { GrantedStart, type Permit, type StartOwner } from './permit.ts'
import { Permits } from './permits.ts'
import { LimiterLimits, type Use } from './uses.ts'

/** How long a call waits, and its place in the line. */
export interface AcquireOptions {
  /** `true` (default): without bound; `false`: an answer at once; or a duration. */
  wait?: Duration | boolean
  /** −100 to 100, default 0: higher goes first, and may use the headroom of limits that have one. */
  priority?: number
  /** Its abort ends the wait, and rejects with its reason. */
  signal?: AbortSignal
}

/** The context of a function that `run` calls. */
export interface RunContext {
  /** Aborts with the caller's signal, or with `lease.lost`. */
  readonly signal: AbortSignal
  /** Corrects the cost of this start: positive units are taken too, negative ones return. */
  charge(use: Use, units: number): Promise<void>
  /** Reads an API's answer: a refusal (429) closes the bucket, headers correct limits with `calibrate`. */
  observe(answer: Answer): Promise<void>
}

/** The events of a limiter, with their payloads. */
export interface LimiterEvents {
  /** The backend cannot be reached. It is told once. */
  'rate_limit.backend_down': { readonly error: unknown }
  /** The backend answers again. `granted`: starts that went on without a budget meanwhile. */
  'rate_limit.backend_up': { readonly downMs: number; readonly granted: number }
  /** An answer closed a bucket (`remaining` null), or bounded it. */
  'rate_limit.dynamic_adjusted': {
    readonly limit: string
    readonly key: string
    readonly until: Date
    readonly remaining: number | null
  }
}

/** A booked start. */
export interface Reservation {
  readonly id: string
  /** Milliseconds from now, fractions included. */
  readonly startAfterMs: number
}

/** The answer at the start of a reservation: `go`, `wait` so long and confirm again, or it is `gone`. */
export type Confirmed =
  | { readonly kind: 'go'; readonly permit: Permit }
  | { readonly kind: 'wait'; readonly startAfterMs: number }
  | { readonly kind: 'gone' }

const WAITING: AcquireOptions = {}

/** Plain code under budgets. `createLimiter` makes one. */
export class Limiter {
  readonly #options: CheckedOptions
  readonly #limits = new LimiterLimits()
  readonly #access: Access
  readonly #lines: Lines
  readonly #permits: Permits
  readonly #owner: StartOwner
  readonly #feedback: Feedback
  readonly #events = new EventEmitter()
  readonly #reserved = new Map<string, readonly BucketUse[]>()
  readonly #prefix: string = `${nonce()}${nonce()}.`
  #starts = 0
  #closing: Promise<void> | null = null

  /** @internal Use `createLimiter`. */
  constructor(options: CheckedOptions, { load, isLocal }: BackendLoader) {
    this.#options = options
    const { clock, leaseUs, failMode, maxWaiting } = options
    const limits = this.#limits
    limits.add(options.limits, 'createLimiter')
    this.#access = new Access(load, isLocal, {
      clock,
      limits,
      failMode,
      down: (error) => this.#events.emit('rate_limit.backend_down', { error }),
      up: (downUs, granted) => this.#events.emit('rate_limit.backend_up', { downMs: downUs / 1000, granted }),
    })
    const call = <T>(work: (backend: LimitBackend) => Promise<T>): Promise<T> => this.#access.call(work)
    this.#permits = new Permits(clock, leaseUs, (permits) => call((backend) => backend.extend(permits, leaseUs)))
    this.#owner = {
      permits: this.#permits,
      release: async (permit) => {
        await this.#call((backend) => backend.release([permit]))
        this.#lines.returned(permit.of)
      },
    }
    this.#feedback = new Feedback({ clock, limits, call, adjusted: (...change) => this.#adjusted(...change) })
    this.#lines = new Lines({
      clock,
      limits,
      maxWaiting,
      leaseUs,
      isLocal,
      prefix: this.#prefix,
      acquire: (requests) => this.#access.acquire(requests),
      acquireNow: (request) => this.#access.acquireNow(request),
      giveBack: (uses, { atUs, permit }) => {
        const back = uses.map((use) => call((backend) => backend.charge(use, -use.weight, atUs)))
        if (permit) back.push(call((backend) => backend.release([permit])))
        void Promise.allSettled(back).then(() => this.#lines.returned(permit?.of ?? []))
      },
    })
  }

  /** Calls that wait for their budget. */
  get waiting(): number {
    return this.#lines.waiting
  }

  /** Listens to an event. It returns a function that ends that. */
  on<E extends keyof LimiterEvents>(event: E, listener: (payload: LimiterEvents[E]) => void): () => void {
    this.#events.on(event, listener)
    return () => this.#events.off(event, listener)
  }

  /** Adds limits. */
  define(limits: readonly Limit[]): void {
    this.#limits.add(limits, 'limiter.define')
    this.#access.again()
  }

  /**
   * Waits for the units of all uses, and takes them at once.
   * @throws {RateLimitRejected} they will not be there in time
   * @throws {SluiceError} `limiter.full`, `limiter.closed`, `limit.unknown`, `limit.weight.above_burst`; the reason of
   * an aborted signal
   */
  async acquire(uses: readonly Use[], options: AcquireOptions = WAITING): Promise<Permit> {
    if (options !== WAITING) checkOptions(options, ['wait', 'priority', 'signal'], 'limiter.acquire')
    return this.#acquire(uses, options)
  }

  /**
   * Acquires, calls the function and releases. A `RateLimited` that it throws closes the bucket, and is thrown on.
   * @throws what `acquire` and the function throw
   */
  async run<T>(
    uses: readonly Use[],
    work: (ctx: RunContext) => Promise<T> | T,
    options: AcquireOptions = {},
  ): Promise<T> {
    checkOptions(options, ['wait', 'priority', 'signal'], 'limiter.run')
    const start = await this.#acquire(uses, options)
    this.#feedback.begin(start)
    const { signal } = options
    try {
      return await work({
        signal: signal ? AbortSignal.any([signal, start.signal]) : start.signal,
        charge: (use, units) => this.#charge(use, units, start.atUs),
        observe: async (answer) => {
          await this.#feedback.observe(start, answer)
          this.#changed(start.uses)
        },
      })
    } catch (error) {
      if (isRateLimited(error)) await this.#feedback.refused(start.uses, error)
      throw error
    } finally {
      this.#feedback.end(start)
      await start.release()
    }
  }

  /**
   * Makes a drop-in `fetch` that waits for its budget. A refusal (429) closes the bucket until its Retry-After, and
   * headers correct limits with `calibrate`.
   */
  fetch(options: FetchOptions): typeof fetch {
    return limitedFetch(options, {
      acquire: async (uses, terms) => this.#acquire(uses, terms),
      feedback: this.#feedback,
    })
  }

  /**
   * Books the exact next start, if it is at most so far away. Confirm it then. A reservation holds its units of every
   * bucket from now on, and is not ordered with the calls that wait.
   * @throws {RateLimitRejected} the next start is later
   */
  async reserve(uses: readonly Use[], options: { atMost: Duration; priority?: number }): Promise<Reservation> {
    checkOptions(options, ['atMost', 'priority'], 'limiter.reserve')
    const buckets = this.#limits.resolve(uses, 'limiter.reserve')
    const atMostUs = durationUs(options.atMost, 'atMost of limiter.reserve')
    const permit = `${this.#prefix}r${++this.#starts}`
    const { leaseUs, clock } = this.#options
    const request = { uses: buckets, priority: priorityOf(options.priority), line: 0, permit, leaseUs }
    const answer = await this.#call((backend) => backend.reserve(request, atMostUs))
    if (answer.kind === 'unknown')
      throw new SluiceError('limit.unknown', `The backend does not know the limit ${answer.limit}.`)
    if (answer.kind === 'booked') {
      this.#reserved.set(answer.id, buckets)
      return { id: answer.id, startAfterMs: answer.startAfterUs / 1000 }
    }
    const { by, retryAfterUs } = answer
    const expected = retryAfterUs === null ? null : new Date(clock.now() + retryAfterUs / 1000)
    throw new RateLimitRejected(by.limit, by.key, expected, this.#limits.policy(by.limit))
  }

  /** Asks at the start of a reservation whether it stands. */
  async confirm(id: string): Promise<Confirmed> {
    const answer: Confirmation = await this.#call((backend) => backend.confirm(id))
    if (answer.kind === 'wait') return { kind: 'wait', startAfterMs: answer.startAfterUs / 1000 }
    const uses = this.#reserved.get(id) ?? []
    this.#reserved.delete(id)
    return answer.kind === 'gone' ? answer : { kind: 'go', permit: this.#started(uses, answer) }
  }

  /** Gives a reservation back, as far as no later start counts on it. False: it is gone. */
  async cancel(id: string): Promise<boolean> {
    this.#reserved.delete(id)
    return this.#call((backend) => backend.cancel(id))
  }

  /**
   * Corrects the cost of a start: positive units are taken too, into debt if need be; negative ones return.
   * @param permit the start; units that return need it
   */
  async charge(use: Use, units: number, permit?: Permit): Promise<void> {
    if (permit === undefined && units < 0)
      throw new SluiceError('option.invalid', 'limiter.charge needs the permit of the start whose units return.')
    await this.#charge(use, units, permit instanceof GrantedStart ? permit.atUs : 0)
  }

  /** Closes a bucket for so long. */
  async penalize(use: Use, duration: Duration): Promise<void> {
    const bucket = this.#limits.one(use, 'limiter.penalize')
    await this.#feedback.penalize(bucket, durationUs(duration, 'duration of limiter.penalize'))
  }

  /** Changes numbers of a limit's policy, for all processes and until it ends: `{ rate: 5 }`, or a text as `'5/s'`. */
  async override(limit: Limit | string, change: PolicyChange | string, options: ChangeOptions = {}): Promise<void> {
    const name = typeof limit === 'object' && limit !== null ? limit.name : limit
    const found =
      typeof change === 'string'
        ? changeInText(change, this.#limits.policy(name) ?? NO_POLICY, `limit ${name}`)
        : change
    await this.#change('override', limit, found, options)
  }

  /** Ends an override. False: there was none. */
  async removeOverride(limit: Limit | string, options: Omit<ChangeOptions, 'until'> = {}): Promise<boolean> {
    return this.#change('override', limit, null, options)
  }

  /** Stops all starts of a limit, for all processes. */
  async pause(limit: Limit | string, options: ChangeOptions = {}): Promise<void> {
    await this.#change('pause', limit, {}, options)
  }

  /** Ends a pause. False: there was none. */
  async resume(limit: Limit | string, options: Omit<ChangeOptions, 'until'> = {}): Promise<boolean> {
    return this.#change('pause', limit, null, options)
  }

  /** The present state of a bucket. */
  async inspect(use: Use): Promise<LimiterBucket> {
    const bucket = this.#limits.one(use, 'limiter.inspect')
    const report = await this.#call((backend) => backend.inspect(bucket))
    if (!report) throw new SluiceError('limit.unknown', `The backend does not know the limit ${bucket.limit}.`)
    const counts = { waiting: this.waiting, grantedBlindly: this.#access.grantedBlindly }
    return bucketView(bucket, report, this.#options.clock, counts)
  }

  /** Makes a bucket new again. Its permits stay. */
  async forget(use: Use): Promise<void> {
    const bucket = this.#limits.one(use, 'limiter.forget')
    await this.#call((backend) => backend.forget(bucket))
    this.#lines.changed(bucket.limit)
  }

  /** Refuses all that wait, returns all permits, and closes the connection that the limiter opened. */
  async close(): Promise<void> {
    this.#closing ??= this.#close()
    await this.#closing
  }

  async #close(): Promise<void> {
    this.#lines.end(closed())
    this.#permits.stop()
    const permits = this.#permits.all
    if (permits.length > 0) await this.#access.call((backend) => backend.release(permits)).catch(() => undefined)
    await this.#access.close()
  }

  #acquire(uses: readonly Use[], options: AcquireOptions): GrantedStart | Promise<GrantedStart> {
    const { wait = true, signal } = options
    signal?.throwIfAborted()
    const buckets = this.#limits.resolve(uses, 'limiter.acquire')
    const priority = priorityOf(options.priority)
    const waitUs = waitUsOf(wait)
    const now = this.#lines.acquireNow(buckets, priority)
    if (now) return this.#started(buckets, now)
    return this.#lines.acquire(buckets, priority, waitUs, signal).then((granted) => this.#started(buckets, granted))
  }

  #started(uses: readonly BucketUse[], granted: Extract<Confirmation, { kind: 'granted' }>): GrantedStart {
    return new GrantedStart(uses, granted, ++this.#starts, this.#owner)
  }

  #call<T>(work: (backend: LimitBackend) => Promise<T>): Promise<T> {
    if (this.#closing) throw closed()
    return this.#access.call(work)
  }

  async #charge(use: Use, units: number, atUs: number): Promise<void> {
    const bucket = this.#limits.one(use, 'charge')
    const rule = this.#limits.policy(bucket.limit)?.rule
    if (!Number.isSafeInteger(units) || Math.abs(units) > MAX_UNITS)
      throw new SluiceError(
        'limit.weight.invalid',
        `The units of a charge are invalid: ${show(units)}. Expected a whole number of at most ${MAX_UNITS}.`,
      )
    if (!rule || rule.kind === 'spacing')
      throw new SluiceError('option.invalid', `The limit ${bucket.limit} counts starts, not units: it takes no charge.`)
    await this.#call((backend) => backend.charge(bucket, units, atUs))
    if (units < 0) this.#lines.changed(bucket.limit)
  }

  async #change(
    kind: 'override' | 'pause',
    limit: Limit | string,
    change: PolicyChange | null,
    options: ChangeOptions,
  ): Promise<boolean> {
    const request = changeOf(kind, limit, change, options, this.#options.clock)
    const isDone = await this.#call((backend) => backend.change(request))
    this.#lines.changed(request.limit)
    return isDone
  }

  #changed(uses: readonly BucketName[]): void {
    for (const { limit } of uses) if (this.#limits.policy(limit)?.calibrate) this.#lines.changed(limit)
  }

  #adjusted({ limit, key }: BucketName, forUs: number, remaining: number | null): void {
    const until = new Date(this.#options.clock.now() + forUs / 1000)
    this.#events.emit('rate_limit.dynamic_adjusted', { limit, key, until, remaining })
  }
}

function waitUsOf(wait: Duration | boolean): number {
  if (typeof wait === 'boolean') return wait ? Infinity : 0
  return durationUs(wait, 'wait of limiter.acquire')
}

function priorityOf(priority: number = 0): number {
  if (Number.isInteger(priority) && priority >= -100 && priority <= 100) return priority
  throw new SluiceError(
    'priority.invalid',
    `The priority is invalid: ${show(priority)}. Expected a whole number from -100 to 100.`,
  )
}

function closed(): SluiceError {
  return new SluiceError('limiter.closed', 'The limiter is closed. Create a new one.')
}

function nonce(): string {
  return Math.floor(systemRandom.next() * 2 ** 52).toString(36)
}
