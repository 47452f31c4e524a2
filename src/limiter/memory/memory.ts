import type { Clock } from '../../base/clock.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type {
  ReservationAnswer,
  BucketName,
  BucketReport,
  BudgetLeft,
  ChangeRequest,
  Confirmation,
  HeldPermit,
  LimitBackend,
  UnitAnswer,
  UnitRequest,
} from '../contract/limiter.ts'
import { acquireIn, acquireOne } from '../ledger/acquire.ts'
import { RESERVATION_LAPSES_US } from '../../policy/limits/booked.ts'
import type { Reservation } from '../ledger/reservations.ts'
import { changeEvent, definitionEvent, UNDEFINED } from '../ledger/changes.ts'
import type { BucketCorrection } from '../ledger/corrections.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { MemoryBucket } from './memory-bucket.ts'
import { MemoryLimit } from './memory-limit.ts'

/** Few limiters book or correct starts. */
const reservations = async () => import('../ledger/reservations.ts')
const corrections = async () => import('../ledger/corrections.ts')

/** The buckets as of one step. */
class MemoryLedger implements Ledger {
  nowUs = 0
  readonly #limits: ReadonlyMap<string, MemoryLimit>
  /** Calls for one limit often follow each other. */
  #last: MemoryLimit | null = null

  constructor(limits: ReadonlyMap<string, MemoryLimit>) {
    this.#limits = limits
  }

  bucket(limit: string, key: string): MemoryBucket | null {
    if (this.#last?.name !== limit) this.#last = this.#limits.get(limit) ?? null
    return this.#last?.bucket(key, this.nowUs) ?? null
  }

  timeline(limit: string): Timeline {
    return this.#limits.get(limit)?.timeline ?? UNDEFINED
  }

  close(): void {
    this.#last = null
  }
}

/** Limits in the memory of this process. Time is the steady clock, which begins at the wall clock's reading. */
export class MemoryBackend implements LimitBackend {
  readonly isLocal = true
  readonly #clock: Clock
  readonly #originUs: number
  readonly #limits = new Map<string, MemoryLimit>()
  /** Steps never overlap, so one object serves all. */
  readonly #now = new MemoryLedger(this.#limits)
  /** In the order of their last confirmation, so that the first ones lapse first. */
  readonly #reservations = new Map<string, Reservation>()

  constructor(clock: Clock) {
    this.#clock = clock
    this.#originUs = Math.round(clock.now() * 1000) - clock.monotonicUs()
  }

  /** The number of buckets that are kept. */
  get size(): number {
    let size = 0
    for (const limit of this.#limits.values()) size += limit.size
    return size
  }

  async define(definitions: readonly LimitDefinition[]): Promise<readonly string[]> {
    const { nowUs } = this.#ledger()
    return definitions.flatMap((definition) => {
      const { name } = definition
      const limit = this.#limits.get(name) ?? new MemoryLimit(name, () => this.#wallOffsetUs())
      this.#limits.set(name, limit)
      limit.endOverdue(nowUs)
      const event = definitionEvent(limit.timeline, definition, nowUs)
      if (event) limit.add(event)
      return event ? [name] : []
    })
  }

  async acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    return acquireIn(this.#ledger(), requests)
  }

  acquireNow(request: UnitRequest): UnitAnswer {
    return acquireOne(this.#ledger(), request)
  }

  async reserve(request: UnitRequest, atMostUs: number): Promise<ReservationAnswer> {
    const { reserveIn } = await reservations()
    const ledger = this.#ledger()
    this.#lapse(ledger.nowUs)
    const { answer, reservation } = reserveIn(ledger, request, atMostUs, this.#reservations.get(request.permit))
    this.#reservations.delete(request.permit)
    if (reservation) this.#reservations.set(request.permit, reservation)
    return answer
  }

  async confirm(id: string): Promise<Confirmation> {
    const { confirmIn } = await reservations()
    const reservation = this.#reservations.get(id)
    if (!reservation) return { kind: 'gone' }
    const { answer, next } = confirmIn(this.#ledger(), reservation)
    this.#reservations.delete(id)
    if (next) this.#reservations.set(id, next)
    return answer
  }

  async cancel(id: string): Promise<boolean> {
    const { cancelIn } = await reservations()
    const reservation = this.#reservations.get(id)
    if (!reservation || !this.#reservations.delete(id)) return false
    cancelIn(this.#ledger(), reservation)
    return true
  }

  async release(permits: readonly HeldPermit[]): Promise<void> {
    for (const { id, of } of permits) for (const name of of) this.#known(name)?.returnPermit(id)
  }

  async extend(permits: readonly HeldPermit[], leaseUs: number): Promise<readonly HeldPermit[]> {
    const { nowUs } = this.#ledger()
    return permits.filter(({ id, of }) => {
      const held = of.map((name) => {
        const bucket = this.#known(name)
        bucket?.endLeases(nowUs)
        return bucket?.extendPermit(id, nowUs + leaseUs) ?? false
      })
      return held.includes(false)
    })
  }

  async charge(bucket: BucketName, units: number, atUs: number): Promise<void> {
    this.#correct(bucket, (await corrections()).chargeBy(units, atUs))
  }

  async penalize(bucket: BucketName, forUs: number): Promise<boolean> {
    return this.#correct(bucket, (await corrections()).closeFor(forUs))
  }

  async calibrate(bucket: BucketName, report: BudgetLeft): Promise<boolean> {
    return this.#correct(bucket, (await corrections()).calibrateTo(report))
  }

  async change(request: ChangeRequest): Promise<boolean> {
    const { nowUs } = this.#ledger()
    const limit = this.#limits.get(request.limit)
    limit?.endOverdue(nowUs)
    const event = changeEvent(limit?.timeline ?? UNDEFINED, request, nowUs)
    if (event) limit?.add(event)
    return event !== null
  }

  async inspect({ limit, key }: BucketName): Promise<BucketReport | null> {
    const { reportOf } = await corrections()
    const ledger = this.#ledger()
    const bucket = ledger.bucket(limit, key)
    return bucket && reportOf(bucket, ledger.timeline(limit), ledger.nowUs)
  }

  async forget(bucket: BucketName): Promise<void> {
    this.#correct(bucket, (await corrections()).renew)
  }

  async close(): Promise<void> {
    this.#limits.clear()
    this.#now.close()
    this.#reservations.clear()
  }

  #ledger(): Ledger {
    this.#now.nowUs = this.#clock.monotonicUs() + this.#originUs
    return this.#now
  }

  #wallOffsetUs(): number {
    return Math.round(this.#clock.now() * 1000) - this.#originUs - this.#clock.monotonicUs()
  }

  #known({ limit, key }: BucketName): MemoryBucket | undefined {
    return this.#limits.get(limit)?.known(key)
  }

  #correct({ limit, key }: BucketName, correction: BucketCorrection): boolean {
    const ledger = this.#ledger()
    const bucket = ledger.bucket(limit, key)
    return bucket !== null && correction(bucket, ledger.nowUs) === 'news'
  }

  #lapse(nowUs: number): void {
    for (const [id, { startUs }] of this.#reservations) {
      if (startUs + RESERVATION_LAPSES_US > nowUs) return
      this.#reservations.delete(id)
    }
  }
}
