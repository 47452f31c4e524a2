import { randomUUID } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import type {
  BucketName,
  BucketReport,
  BudgetLeft,
  BucketUse,
  ChangeRequest,
  Confirmation,
  Granted,
  HeldPermit,
  LimitBackend,
  ReservationAnswer,
  UnitAnswer,
  UnitRequest,
  WaitTerms,
} from '../../limiter/contract/limiter.ts'
import { aheadOf, type Changing } from '../../jobs/hold.ts'
import { ownLines } from '../../limiter/ledger/own-lines.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import { TICKETS } from '../contract/budgets.ts'
import type { Store } from '../contract/store.ts'
import { Gathered } from '../../base/gathered.ts'
import { LEASE_US, Membership } from './membership.ts'
import { Names } from './names.ts'
import { type TicketEngine, Tickets } from './tickets.ts'

/** The parts of the limits of a store. */
export interface StoreLimiterOptions {
  readonly store: Store
  readonly clock: Clock
  /** Stands before the names of limits; '': they are those of the store's jobs. */
  readonly prefix?: string
  /** Called at the end of its `close`. */
  readonly closed?: () => Promise<void>
  /** How far ahead calls that wait are granted, in µs; default: as far as the store grants. */
  readonly aheadUs?: number | undefined
  /** An engine of this process keeps the store in order, and reports claims. Absent: there is none. */
  readonly engine?: TicketEngine & {
    /** Runs a change of limits, before which the granted starts of jobs that use them go back. */
    readonly changing: Changing
    /** Calls back when a budget may have opened for code without jobs. */
    subscribe(listener: () => void): () => void
  }
}

/** The buckets of a store as a backend of limits. Its jobs draw from the same ones, and wait in the same wait lists. */
export class StoreLimiter implements LimitBackend {
  readonly isLocal = true
  readonly #store: Store
  readonly #options: StoreLimiterOptions
  readonly #names: Names
  readonly #membership: Membership
  readonly #tickets: Tickets
  readonly #stops: (() => void)[] = []
  /** Calls that are made while others are on their way share a transaction. */
  readonly #acquiring: Gathered<UnitRequest, UnitAnswer>
  readonly #releasing: Gathered<HeldPermit, null>
  readonly #apart = ownLines()

  constructor(options: StoreLimiterOptions) {
    const { store, clock, prefix = '', engine } = options
    this.#options = options
    this.#store = store
    this.#names = new Names(prefix)
    this.#releasing = new Gathered(async (permits) => {
      await store.budgets.release(permits)
      return permits.map(() => null)
    })
    const queue = TICKETS + randomUUID()
    this.#acquiring = new Gathered((requests) => store.budgets.acquire(requests, queue))
    const [alone, woke] = [engine === undefined, (): void => this.#opened()]
    this.#membership = new Membership({ store, clock, queue, alone, woke, beat: () => this.#tickets.check() })
    this.#tickets = new Tickets({
      store,
      clock,
      queue,
      leaseUs: LEASE_US,
      aheadUs: aheadOf(options.aheadUs, clock, store),
      membership: this.#membership,
      engine,
      giveBack: (uses, granted) => void this.#giveBack(uses, granted).catch(() => undefined),
    })
    const changed = (): void => this.#tickets.changed(true)
    if (engine) this.#stops.push(engine.subscribe(changed))
    this.#stops.push(store.watch((change) => (change === 'work' || change === 'any' ? changed() : undefined)))
  }

  async define(definitions: readonly LimitDefinition[]): Promise<readonly string[]> {
    const stored = definitions.map((each) => ({ ...each, name: this.#names.stored(each.name) }))
    const names = new Set(stored.map(({ name }) => name))
    const changed = await this.#changing(
      (use) => names.has(use.limit),
      () => this.#store.define(stored),
    )
    if (changed.length > 0) this.#opened()
    return changed.map((name) => this.#names.shown(name))
  }

  async acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    const answers = await this.#acquire(requests.map((request) => this.#names.storedRequest(request)))
    return answers.map((answer) => this.#names.shownAnswer(answer))
  }

  async wait(request: UnitRequest, { waitUs, signal }: WaitTerms): Promise<UnitAnswer> {
    const stored = this.#names.storedRequest(request)
    const known = this.#tickets.denialOf(stored, waitUs)
    const [answer] = known ? [known] : await this.#acquire([stored])
    if (answer?.kind === 'granted' && signal?.aborted) {
      await this.#giveBack(stored.uses, answer)
      signal.throwIfAborted()
    }
    if (answer?.kind !== 'denied') return this.#names.shownAnswer(answer as UnitAnswer)
    const isTooLate = answer.retryAfterUs !== null && answer.retryAfterUs > waitUs
    if (waitUs === 0 || isTooLate) return this.#names.shownAnswer(answer)
    return this.#names.shownAnswer(await this.#tickets.wait(stored, answer, waitUs, signal))
  }

  async reserve(request: UnitRequest, atMostUs: number): Promise<ReservationAnswer> {
    this.#membership.begin()
    const answer = await this.#store.budgets.reserve(this.#names.storedRequest(request), atMostUs)
    return answer.kind === 'booked' ? answer : (this.#names.shownAnswer(answer) as ReservationAnswer)
  }

  async confirm(id: string): Promise<Confirmation> {
    const answer = await this.#store.budgets.confirm(id)
    if (answer.kind === 'wait') return { ...answer, by: this.#names.shownBucket(answer.by) }
    return answer.kind === 'granted' ? this.#names.shownGrant(answer) : answer
  }

  async cancel(id: string): Promise<boolean> {
    const found = await this.#store.budgets.cancel(id)
    if (found) this.#opened()
    return found
  }

  async release(permits: readonly HeldPermit[]): Promise<void> {
    await this.#releasing.add(permits)
    this.#opened()
  }

  extend(permits: readonly HeldPermit[], leaseUs: number): Promise<readonly HeldPermit[]> {
    return this.#store.budgets.extend(permits, leaseUs)
  }

  async charge(bucket: BucketName, units: number, atUs: number): Promise<void> {
    const { limit, key } = this.#names.storedBucket(bucket)
    await this.#store.charge(limit, key, units, atUs)
    if (units < 0) this.#opened()
  }

  async penalize(bucket: BucketName, forUs: number): Promise<boolean> {
    const { limit, key } = this.#names.storedBucket(bucket)
    return this.#changingOf({ limit, key }, () => this.#store.penalize(limit, key, this.#store.nowUs() + forUs))
  }

  async calibrate(bucket: BucketName, report: BudgetLeft): Promise<boolean> {
    const { limit, key } = this.#names.storedBucket(bucket)
    const { resetInUs, ...rest } = report
    const isNews = await this.#changingOf({ limit, key }, () =>
      this.#store.calibrate(limit, key, { ...rest, resetUs: this.#store.nowUs() + resetInUs }),
    )
    this.#opened()
    return isNews
  }

  async change(request: ChangeRequest): Promise<boolean> {
    const { forUs, limit, ...rest } = request
    const untilUs = forUs === null ? null : this.#store.nowUs() + forUs
    const change = request.kind === 'pause' && request.change ? { concurrency: 0 } : request.change
    const name = this.#names.stored(limit)
    const { key } = request
    const found = await this.#changing(
      (use) => use.limit === name && (key === null || use.key === key),
      () => this.#store.override({ ...rest, change, limit: name, untilUs }),
    )
    if (found) this.#opened()
    return found
  }

  async inspect(bucket: BucketName): Promise<BucketReport | null> {
    return this.#store.budgets.inspect(this.#names.storedBucket(bucket))
  }

  async forget(bucket: BucketName): Promise<void> {
    const stored = this.#names.storedBucket(bucket)
    await this.#changingOf(stored, () => this.#store.budgets.forget(stored))
    this.#opened()
  }

  /** Runs a change of limits, before which the granted starts of calls that use them go back. */
  changing<T>(uses: (use: BucketName) => boolean, change: () => Promise<T>): Promise<T> {
    return this.#tickets.changing(uses, change)
  }

  /** Takes the tickets of this process out, and its registration. The store stays open. */
  async close(): Promise<void> {
    for (const stop of this.#stops) stop()
    // Where the store does not answer, its tickets go with the lease of this process.
    const ignore = (): void => undefined
    await this.#tickets
      .end(new SluiceError('limiter.closed', 'This limiter is closed. Create a new one.'))
      .catch(ignore)
    await this.#membership.leave().catch(ignore)
    await this.#options.closed?.()
  }

  #changingOf<T>({ limit, key }: BucketName, change: () => Promise<T>): Promise<T> {
    return this.#changing((use) => use.limit === limit && use.key === key, change)
  }

  #changing<T>(uses: (use: BucketName) => boolean, change: () => Promise<T>): Promise<T> {
    const { engine } = this.#options
    return this.changing(uses, () => engine?.changing(uses, change) ?? change())
  }

  #opened(): void {
    this.#options.engine?.changed()
    this.#tickets.changed()
  }

  async #giveBack(uses: readonly BucketUse[], { atUs, permit }: Granted): Promise<void> {
    const { budgets } = this.#store
    const back = uses.map(({ limit, key, weight }) => this.#store.charge(limit, key, -weight, atUs))
    if (permit) back.push(budgets.release([permit]))
    // A limit of permits alone takes no units back.
    await Promise.allSettled(back)
    this.#opened()
  }

  #acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    this.#membership.begin()
    return this.#acquiring.add(this.#apart(requests))
  }
}
