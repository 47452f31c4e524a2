import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { checkPriority } from '../../base/priority.ts'
import { Once } from '../../base/promises.ts'
import { systemRandom } from '../../base/random.ts'
import { isRateLimited } from '../../jobs/is-rate-limited.ts'
import type { Limit } from '../../policy/limits/define.ts'
import { checkCharge } from '../../policy/limits/limit.ts'
import { changeIn, type PolicyChange } from '../../policy/limits/override.ts'
import { NO_POLICY } from '../../policy/limits/timeline.ts'
import type { BackendLoader, BucketName, BucketUse, Granted, LimitBackend } from '../contract/limiter.ts'
import { Access } from './access.ts'
import { BackendWaits, type Waits } from './backend-waits.ts'
import type { ChangeOptions, LimiterBucket } from './controls.ts'
import { Feedback, ifReached } from './feedback.ts'
import type { AcquireOptions, Confirmed, LimiterEvents, Reservation, RunContext, RunOptions } from './calls.ts'
import { type FetchOptions, limitedFetch } from './fetch.ts'
import { Lines } from './lines.ts'
import { Listeners } from './listeners.ts'
import type { CheckedOptions } from './options.ts'
import { GrantedStart, type Permit, type StartOwner, unusedOf } from './permit.ts'
import { Permits } from './permits.ts'
import type { ReservationParts, ReserveOptions } from './reservations.ts'
import { Returns } from './returns.ts'
import { LimiterLimits, type Use } from './uses.ts'

const WAITING: AcquireOptions = {}

/** Plain code under budgets. `createLimiter` makes one. */
export class Limiter {
  readonly #options: CheckedOptions
  readonly #limits: LimiterLimits
  readonly #access: Access
  readonly #lines: Waits
  readonly #permits: Permits
  readonly #owner: StartOwner
  readonly #returns: Returns
  readonly #feedback: Feedback
  readonly #events = new Listeners()
  // Their code is loaded with the first one, so that a limiter without them stays small.
  readonly #reservations = new Once(async () => {
    const { Reservations } = await import('./reservations.ts')
    return new Reservations(this.#reservationParts())
  })
  readonly #prefix: string = `${nonce()}${nonce()}.`
  #starts = 0
  #closing: Promise<void> | null = null

  /** @internal Use `createLimiter`. */
  constructor(options: CheckedOptions, { load, isLocal, hasWaitLists }: BackendLoader) {
    this.#options = options
    const { clock, leaseUs, failMode, maxWaiting } = options
    const limits = (this.#limits = new LimiterLimits(options.adopts, hasWaitLists))
    limits.add(options.limits, 'createLimiter')
    for (const name of failMode.names) limits.known(name, 'failMode of createLimiter')
    this.#access = new Access(load, isLocal, {
      clock,
      limits,
      failMode,
      observer: {
        down: (error) => this.#events.emit('rate_limit.backend_down', { error }),
        up: (downUs, granted) => {
          this.#events.emit('rate_limit.backend_up', { downMs: downUs / 1000, granted })
          void this.#returns.recover()
        },
        reset: () => this.#events.emit('rate_limit.backend_reset', {}),
        lost: (permits) => this.#returns.keep(permits),
        refunded: (buckets) => this.#opened(buckets),
      },
      prefix: this.#prefix,
    })
    const call = async <T>(work: (backend: LimitBackend) => Promise<T>): Promise<T> => this.#call(work)
    this.#permits = new Permits(clock, leaseUs, (permits) =>
      // The spread throws for an answer that is not a list. Then no permit counts as ended.
      this.#access.call(async (backend) => [...(await backend.extend(permits, leaseUs))], undefined, false),
    )
    this.#owner = {
      permits: this.#permits,
      release: async (permit) => {
        if (await this.#returns.give(permit)) this.#lines.returned(permit.of)
      },
    }
    this.#returns = new Returns({
      clock,
      leaseUs,
      release: (permits) => this.#call((backend) => backend.release(permits), undefined, false),
      releaseOnce: (permits) => this.#access.once((backend) => backend.release(permits)),
      returned: (buckets) => this.#lines.returned(buckets),
    })
    this.#feedback = new Feedback({ clock, limits, call, adjusted: (...change) => this.#adjusted(...change) })
    const waits = { clock, limits, maxWaiting, leaseUs, prefix: this.#prefix }
    const { wait, isDown } = { wait: this.#access.wait.bind(this.#access), isDown: () => this.#access.isDown }
    if (hasWaitLists) this.#lines = new BackendWaits({ ...waits, wait, isDown })
    else
      this.#lines = new Lines({
        ...waits,
        isLocal,
        acquire: (requests) => this.#access.acquire(requests),
        acquireNow: (request) => this.#access.acquireNow(request),
        giveBack: (uses, granted) => this.#giveBack(uses, granted),
      })
  }

  /** Calls that wait for their budget. */
  get waiting(): number {
    return this.#lines.waiting
  }

  /** Listens to an event. It returns a function that ends that. @throws {SluiceError} `option.invalid` */
  on<E extends keyof LimiterEvents>(event: E, listener: (payload: LimiterEvents[E]) => void): () => void {
    return this.#events.on(event, listener)
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
  acquire(uses: readonly Use[], options: AcquireOptions = WAITING): Promise<Permit> {
    // An async function takes a fifth more time for a start that is granted at once.
    try {
      if (options !== WAITING) {
        checkOptions(options, ['wait', 'priority', 'signal'], 'limiter.acquire')
        return Promise.resolve(this.#acquire(uses, options))
      }
      const buckets = this.#limits.resolve(uses, 'limiter.acquire')
      const now = this.#lines.acquireNow(buckets, 0)
      if (now) return Promise.resolve(this.#started(buckets, now))
      return this.#wait(buckets, 0, this.#limits.waitUsOf(buckets, Infinity))
    } catch (error) {
      const { promise, reject } = Promise.withResolvers<Permit>()
      reject(error)
      return promise
    }
  }

  /**
   * Acquires, calls the function and releases. A `RateLimited` that it throws closes the bucket, and is thrown on.
   * @throws what `acquire` and the function throw
   */
  async run<T>(uses: readonly Use[], work: (ctx: RunContext) => Promise<T> | T, options: RunOptions = {}): Promise<T> {
    checkOptions(options, ['wait', 'priority', 'signal', 'permit'], 'limiter.run')
    if (typeof work !== 'function')
      throw new SluiceError('option.invalid', `The work of limiter.run is invalid: ${show(work)}. Expected a function.`)
    const { permit, signal } = options
    const given = permit && unusedOf(permit, this.#owner, uses[0] ? this.#limits.resolve(uses, 'limiter.run') : [])
    if (permit !== undefined && !given) throw (await import('./controls.ts')).notUnused(permit, this.#owner)
    const start = given ?? (await this.#acquire(uses, options))
    start.use()
    this.#feedback.begin(start)
    try {
      return await work({
        signal: signal ? AbortSignal.any([signal, start.signal]) : start.signal,
        charge: (use, units) => this.#charge(use, units, start),
        observe: async (answer) => {
          await this.#feedback.observe(start, uses, answer)
          this.#changed(start.uses)
        },
      })
    } catch (error) {
      if (isRateLimited(error)) await ifReached(this.#feedback.refused(start, uses, error))
      throw error
    } finally {
      this.#feedback.end(start)
      await ifReached(start.release())
    }
  }

  /**
   * Makes a drop-in `fetch` that waits for its budget. A refusal (429) closes the bucket until its Retry-After, and
   * headers correct limits with `calibrate`.
   */
  fetch(options: FetchOptions): typeof fetch {
    const acquire = async (uses: readonly Use[], terms: AcquireOptions): Promise<GrantedStart> =>
      this.#acquire(uses, terms)
    return limitedFetch(options, { acquire, feedback: this.#feedback })
  }

  /**
   * Books the exact next start, if it is at most so far away. Confirm it then. A reservation holds its units of every
   * bucket from now on, and is not ordered with the calls that wait.
   * @param options.id names the reservation, 1 to 255 characters, so that another process can confirm it; default: a
   * new name
   * @throws {RateLimitRejected} the next start is later
   */
  async reserve(uses: readonly Use[], options: ReserveOptions): Promise<Reservation> {
    return (await this.#reservations.done()).reserve(uses, options)
  }

  /**
   * Asks at the start of a reservation whether it stands.
   * @param uses of the reservation; a process that reserved without an id need not name them
   */
  async confirm(id: string, uses?: readonly Use[]): Promise<Confirmed> {
    return (await this.#reservations.done()).confirm(id, uses)
  }

  /** Gives a reservation back, as far as no later start counts on it. False: it is gone. */
  async cancel(id: string): Promise<boolean> {
    return (await this.#reservations.done()).cancel(id)
  }

  /**
   * Corrects the cost of a start: positive units are taken too, into debt if need be; negative ones return.
   * @param permit the start; units that return need it
   * @throws {SluiceError} `limiter.backend_down`: Redis and NATS get units that return again later, once
   */
  async charge(use: Use, units: number, permit?: Permit): Promise<void> {
    await this.#charge(use, units, permit)
  }

  /** Closes a bucket for so long. */
  async penalize(use: Use, duration: Duration): Promise<void> {
    const bucket = this.#limits.one(use, 'limiter.penalize')
    await this.#feedback.penalize(bucket, durationUs(duration, 'duration of limiter.penalize'))
  }

  /** Changes numbers of a limit's policy, for all processes and until it ends: `{ rate: 5 }`, or a text as `'5/s'`. */
  async override(limit: Limit | string, change: PolicyChange | string, options: ChangeOptions = {}): Promise<void> {
    const name = typeof limit === 'object' && limit !== null ? limit.name : limit
    const found = changeIn(change, this.#limits.policy(name) ?? NO_POLICY, `limit ${name}`)
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
    const { bucketView } = await import('./controls.ts')
    const { waiting } = this
    const read = async (backend: LimitBackend): Promise<LimiterBucket> => {
      const { grantedBlindly } = this.#access
      return bucketView(bucket, await backend.inspect(bucket), this.#options.clock, { waiting, grantedBlindly })
    }
    return this.#call(read, undefined, false)
  }

  /** Makes a bucket new again. Its permits stay. */
  async forget(use: Use): Promise<void> {
    const bucket = this.#limits.one(use, 'limiter.forget')
    await this.#call((backend) => backend.forget(bucket))
    this.#lines.changed(bucket.limit)
  }

  /**
   * Refuses all that wait, returns all permits, and closes the connection that the limiter opened. Work that still holds
   * a permit goes on, and its signal aborts with `limiter.closed`.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    this.#lines.end(closed())
    this.#returns.end()
    const permits = [...this.#permits.end(closed()), ...this.#returns.left]
    if (permits.length > 0) await this.#access.call((backend) => backend.release(permits)).catch(() => undefined)
    await this.#access.close()
  }

  #acquire(uses: readonly Use[], options: AcquireOptions): GrantedStart | Promise<GrantedStart> {
    const signal = signalOf(options.signal)
    signal?.throwIfAborted()
    const buckets = this.#limits.resolve(uses, 'limiter.acquire')
    const { priority = 0 } = options
    checkPriority(priority, 'limiter.acquire')
    const waitUs = this.#limits.waitUsOf(buckets, waitUsOf(options.wait))
    const now = this.#lines.acquireNow(buckets, priority)
    return now ? this.#started(buckets, now) : this.#wait(buckets, priority, waitUs, signal)
  }

  #wait(uses: readonly BucketUse[], priority: number, waitUs: number, signal?: AbortSignal): Promise<GrantedStart> {
    return this.#lines.acquire(uses, priority, waitUs, signal).then((granted) => this.#started(uses, granted))
  }

  /** Gives back a start that no caller uses. */
  async #giveBack(uses: readonly BucketUse[], { atUs, permit }: Granted): Promise<void> {
    const units = this.#access.giveBack(uses, atUs)
    await Promise.allSettled(permit ? [units, this.#owner.release(permit)] : [units])
  }

  #started(uses: readonly BucketUse[], granted: Granted): GrantedStart {
    return new GrantedStart(uses, granted, ++this.#starts, this.#owner)
  }

  #reservationParts(): ReservationParts {
    return {
      limits: this.#limits,
      clock: this.#options.clock,
      leaseUs: this.#options.leaseUs,
      newId: () => `${this.#prefix}r${++this.#starts}`,
      call: (work, late) => this.#call(work, late),
      started: (uses, granted) => this.#started(uses, granted),
      giveBack: (uses, granted) => this.#giveBack(uses, granted),
    }
  }

  #call<T>(work: (backend: LimitBackend) => Promise<T>, late?: (answer: T) => unknown, proves?: boolean): Promise<T> {
    if (this.#closing) throw closed()
    return this.#access.call(work, late, proves)
  }

  async #charge(use: Use, units: number, permit: Permit | undefined): Promise<void> {
    const bucket = this.#limits.one(use, 'charge')
    if (this.#closing) throw closed()
    ;(await import('./controls.ts')).checkCharged(units, permit, this.#owner)
    checkCharge(bucket.limit, this.#limits.policy(bucket.limit) ?? NO_POLICY)
    const start = permit as GrantedStart | undefined
    const due = start ? start.corrected(bucket, units) : units
    if (due === 0) return
    await this.#access.charge(bucket, due, start?.atUs ?? 0)
    if (due > 0) start?.noted(bucket, due)
    if (due < 0) this.#lines.changed(bucket.limit)
  }

  async #change(
    kind: 'override' | 'pause',
    limit: Limit | string,
    change: PolicyChange | null,
    options: ChangeOptions,
  ): Promise<boolean> {
    const request = (await import('./controls.ts')).changeOf(kind, limit, change, options, this.#options.clock)
    const isDone = await this.#call((backend) => backend.change(request))
    this.#lines.changed(request.limit)
    return isDone
  }

  #opened(buckets: readonly BucketName[]): void {
    for (const { limit } of buckets) this.#lines.changed(limit)
  }

  #changed(uses: readonly BucketName[]): void {
    for (const { limit } of uses) if (this.#limits.policy(limit)?.calibrate) this.#lines.changed(limit)
  }

  #adjusted({ limit, key }: BucketName, forUs: number, remaining: number | null): void {
    const until = new Date(this.#options.clock.now() + forUs / 1000)
    this.#events.emit('rate_limit.dynamic_adjusted', { limit, key, until, remaining })
  }
}

/** @throws {SluiceError} `option.invalid` */
function signalOf(signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal === null || signal instanceof AbortSignal) return signal ?? undefined
  throw new SluiceError(
    'option.invalid',
    `signal of limiter.acquire is invalid: ${show(signal)}. Expected an AbortSignal.`,
  )
}

function waitUsOf(wait: Duration | boolean = true): number {
  if (typeof wait === 'boolean') return wait ? Infinity : 0
  return durationUs(wait, 'wait of limiter.acquire')
}

function closed(): SluiceError {
  return new SluiceError('limiter.closed', 'The limiter is closed. Create a new one.')
}

const nonce = (): string => Math.floor(systemRandom.next() * 2 ** 52).toString(36)
