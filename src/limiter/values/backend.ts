import { RESERVATION_LAPSES_US } from '../../policy/limits/booked.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import { Timeline } from '../../policy/limits/timeline.ts'
import type {
  BucketName,
  BucketReport,
  BudgetLeft,
  ChangeRequest,
  Confirmation,
  HeldPermit,
  LimitBackend,
  ReservationAnswer,
  UnitAnswer,
  UnitRequest,
} from '../contract/limiter.ts'
import { acquireIn } from '../ledger/acquire.ts'
import { changeEvent, definitionEvent, endEvents, kept, type LimitEvent, UNDEFINED } from '../ledger/changes.ts'
import { calibrateTo, chargeBy, closeFor, renew, reportOf } from '../ledger/corrections.ts'
import { MergedCorrections } from '../ledger/merged-corrections.ts'
import { cancelIn, confirmIn, type Reservation, reserveIn, storedReservation } from '../ledger/reservations.ts'
import { ValueBucket } from '../ledger/value-bucket.ts'

/** A value to write. */
export interface WrittenValue {
  /** Null: the key is removed. */
  readonly text: string | null
  /** The store may remove the key after this time, in ms; null: never. */
  readonly ttlMs: number | null
}

/** A place that keeps texts by key. */
export interface ValueStore {
  /**
   * Reads the values of some keys, asks `decide`, and writes what it answers, all in one step: no other caller may change
   * one of the keys in between. Hold a lock, or write only if nothing has changed and begin again otherwise: `decide` may
   * be called again. What `decide` throws is thrown on, and nothing is written.
   */
  update(keys: readonly string[], decide: Decide): Promise<void>
  /** Only this process uses the store, and it cannot be unreachable; default false. */
  readonly isLocal?: boolean
  /** Ends what the store has opened. */
  close?(): Promise<void>
}

/**
 * Decides what to write.
 * @param values in the order of the keys; null: there is none
 * @param nowUs the clock of the store, in whole µs since 1970. Where several processes share it, one clock for all
 * @returns for each key its new value; null: it stays
 */
export type Decide = (values: readonly (string | null)[], nowUs: number) => readonly (WrittenValue | null)[]

/** A step over some buckets and reservations. */
interface Step {
  readonly nowUs: number
  readonly bucket: (limit: string, key: string) => ValueBucket | null
  readonly timeline: (limit: string) => Timeline
  readonly add: (limit: string, events: readonly LimitEvent[]) => void
  /** The reservations by their places. */
  readonly reservations: (Reservation | null)[]
}

const LIMITS = 'limits'

/** Limits in texts by key: all limits under one key, each bucket and each reservation under its own. */
export class ValueBackend implements LimitBackend {
  readonly isLocal: boolean
  readonly #store: ValueStore
  readonly #corrections: MergedCorrections = new MergedCorrections((name, work) => this.#step([name], [], work))

  constructor(store: ValueStore) {
    this.#store = store
    this.isLocal = store.isLocal ?? false
  }

  define(definitions: readonly LimitDefinition[]): Promise<readonly string[]> {
    return this.#step([], [], ({ nowUs, timeline, add }) =>
      definitions.flatMap((definition) => {
        const { name } = definition
        add(name, endEvents(timeline(name), nowUs))
        const event = definitionEvent(timeline(name), definition, nowUs)
        if (event) add(name, [event])
        return event ? [name] : []
      }),
    )
  }

  acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    const uses = requests.flatMap((request) => request.uses)
    // With a store of its own, a process shares no bucket.
    const asked = this.#store.isLocal ? requests.map(({ caller: _alone, ...request }) => request) : requests
    return this.#step(uses, [], (step) => acquireIn(step, asked))
  }

  reserve(request: UnitRequest, atMostUs: number): Promise<ReservationAnswer> {
    return this.#step(request.uses, [request.permit], (step) => {
      const { answer, reservation } = reserveIn(step, request, atMostUs, step.reservations[0])
      step.reservations[0] = reservation
      return answer
    })
  }

  async confirm(id: string): Promise<Confirmation> {
    const uses = await this.#usesOf(id)
    return this.#step(uses, [id], (step) => {
      const [reservation] = step.reservations
      if (!reservation) return { kind: 'gone' }
      const { answer, next } = confirmIn(step, reservation)
      step.reservations[0] = next
      return answer
    })
  }

  async cancel(id: string): Promise<boolean> {
    const uses = await this.#usesOf(id)
    return this.#step(uses, [id], (step) => {
      const [reservation] = step.reservations
      if (!reservation) return false
      cancelIn(step, reservation)
      step.reservations[0] = null
      return true
    })
  }

  async release(permits: readonly HeldPermit[]): Promise<void> {
    await this.#eachPermit(permits, (bucket, id) => bucket.permits.delete(id))
  }

  extend(permits: readonly HeldPermit[], leaseUs: number): Promise<readonly HeldPermit[]> {
    return this.#eachPermit(permits, (bucket, id, nowUs) => {
      if (!bucket.permits.has(id)) return false
      bucket.takePermit(id, nowUs + leaseUs)
      return true
    })
  }

  async charge(bucket: BucketName, units: number, atUs: number): Promise<void> {
    await this.#corrections.correct(bucket, chargeBy(units, atUs))
  }

  penalize(bucket: BucketName, forUs: number): Promise<boolean> {
    return this.#corrections.correct(bucket, closeFor(forUs))
  }

  calibrate(bucket: BucketName, report: BudgetLeft): Promise<boolean> {
    return this.#corrections.correct(bucket, calibrateTo(report))
  }

  change(request: ChangeRequest): Promise<boolean> {
    const { limit } = request
    return this.#step([], [], ({ nowUs, timeline, add }) => {
      add(limit, endEvents(timeline(limit), nowUs))
      const event = changeEvent(timeline(limit), request, nowUs)
      if (event) add(limit, [event])
      return event !== null
    })
  }

  inspect({ limit, key }: BucketName): Promise<BucketReport | null> {
    return this.#step([{ limit, key }], [], ({ nowUs, bucket, timeline }) => {
      const found = bucket(limit, key)
      return found && reportOf(found, timeline(limit), nowUs)
    })
  }

  async forget(bucket: BucketName): Promise<void> {
    await this.#corrections.correct(bucket, renew)
  }

  async close(): Promise<void> {
    await this.#store.close?.()
  }

  async #usesOf(id: string): Promise<readonly BucketName[]> {
    return this.#step([], [id], ({ reservations: [known] }) => known?.request.uses ?? [])
  }

  /** Changes permits; it returns those of which a bucket knows nothing. */
  #eachPermit(
    permits: readonly HeldPermit[],
    change: (bucket: ValueBucket, id: string, nowUs: number) => boolean,
  ): Promise<readonly HeldPermit[]> {
    const names = permits.flatMap(({ of }) => of)
    return this.#step(names, [], ({ nowUs, bucket }) =>
      permits.filter(({ id, of }) => {
        const done = of.map(({ limit, key }) => {
          const found = bucket(limit, key)
          if (!found || !change(found, id, nowUs)) return false
          found.changed = true
          return true
        })
        return done.includes(false)
      }),
    )
  }

  /** Reads, lets `work` decide, and writes. */
  async #step<T>(names: readonly BucketName[], ids: readonly string[], work: (step: Step) => T): Promise<T> {
    const buckets = [...new Map(names.map((name) => [bucketKey(name), name]))]
    const keys = [LIMITS, ...buckets.map(([key]) => key), ...ids.map((id) => `r:${id}`)]
    let result: T | undefined
    await this.#store.update(keys, (values, nowUs) => {
      const limits = new StoredLimits(values[0] ?? null)
      for (const limit of new Set(names.map((name) => name.limit)))
        limits.add(limit, endEvents(limits.timeline(limit), nowUs))
      const found = new Map(
        buckets.map(([key, name], i) => {
          const timeline = limits.timeline(name.limit)
          return [key, timeline.definition && new ValueBucket(name, values[1 + i] ?? '', timeline, nowUs)]
        }),
      )
      const known = values.slice(1 + buckets.length).map((text) => text && storedReservation(text))
      const reservations = known.map((each) => each || null)
      const before = [...reservations]
      result = work({
        nowUs,
        bucket: (limit, key) => found.get(bucketKey({ limit, key })) ?? null,
        timeline: (limit) => limits.timeline(limit),
        add: (limit, events) => limits.add(limit, events),
        reservations,
      })
      return [
        limits.written,
        ...buckets.map(([key]) => bucketValue(found.get(key) ?? null, nowUs)),
        ...reservations.map((each, i) => (each === before[i] ? null : reservationValue(each, nowUs))),
      ]
    })
    return result as T
  }
}

/** The changes of all limits in one text. */
class StoredLimits {
  readonly #events: Map<string, readonly LimitEvent[]>
  readonly #timelines = new Map<string, Timeline>()
  #changed = false

  constructor(text: string | null) {
    this.#events = new Map(text === null ? [] : (JSON.parse(text) as [string, LimitEvent[]][]))
  }

  timeline(limit: string): Timeline {
    const known = this.#timelines.get(limit)
    if (known) return known
    const events = this.#events.get(limit)
    const timeline = events ? new Timeline(events) : UNDEFINED
    this.#timelines.set(limit, timeline)
    return timeline
  }

  add(limit: string, events: readonly LimitEvent[]): void {
    if (events.length === 0) return
    this.#events.set(limit, kept([...(this.#events.get(limit) ?? []), ...events]))
    this.#timelines.delete(limit)
    this.#changed = true
  }

  get written(): WrittenValue | null {
    return this.#changed ? { text: JSON.stringify([...this.#events]), ttlMs: null } : null
  }
}

function bucketKey({ limit, key }: BucketName): string {
  return `b:${encodeURIComponent(limit)}:${key}`
}

function bucketValue(bucket: ValueBucket | null, nowUs: number): WrittenValue | null {
  if (!bucket?.changed) return null
  const leftUs = bucket.endsUs - nowUs
  return leftUs <= 0 ? { text: null, ttlMs: null } : { text: bucket.value, ttlMs: Math.ceil(leftUs / 1000) + 1 }
}

function reservationValue(reservation: Reservation | null, nowUs: number): WrittenValue {
  if (reservation === null) return { text: null, ttlMs: null }
  const leftUs = Math.max(0, reservation.startUs - nowUs) + RESERVATION_LAPSES_US
  return { text: JSON.stringify(reservation), ttlMs: Math.ceil(leftUs / 1000) }
}
