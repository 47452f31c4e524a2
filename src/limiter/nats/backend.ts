import { systemClock, type Timer } from '../../base/clock.ts'
import { systemRandom } from '../../base/random.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type {
  BucketName,
  BucketReport,
  BudgetLeft,
  ChangeRequest,
  ChargeName,
  Confirmation,
  HeldPermit,
  LimitBackend,
  ReservationAnswer,
  UnitAnswer,
  UnitRequest,
} from '../contract/limiter.ts'
import { acquireIn } from '../ledger/acquire.ts'
import { definitionEvent, type LimitEvent } from '../ledger/changes.ts'
import { calibrateTo, chargeBy, closeFor, renew, reportOf } from '../ledger/corrections.ts'
import { cancelIn, confirmIn, type Reservation, reserveIn, storedReservation, unbook } from '../ledger/reservations.ts'
import { MergedCorrections } from '../ledger/merged-corrections.ts'
import { NamedCharges } from '../ledger/named-charges.ts'
import { ownLines } from '../ledger/own-lines.ts'
import { type Entries, UnknownFate } from './kv.ts'
import type { NatsBucket } from './nats-bucket.ts'
import { NatsPolicies } from './policies.ts'
import { ServerClock } from './server-clock.ts'
import { refundIn, type Stand, Steps } from './steps.ts'

/** The parts of the backend on NATS. */
export interface NatsOptions {
  readonly close: () => Promise<void>
  /** The clock, for tests; absent: the server's. */
  readonly nowUs?: () => number
}

/** How often cold entries are looked for, and how many are remembered. */
const PURGED_EVERY_MS = 1000
const MOST_REMEMBERED = 100_000
/** A request whose bucket others change all the time is told to come back. */
const BUSY_US = 20_000
/** Requests that come later wait so long for the answers to those before them. */
const QUEUED_MS = 200

interface Waiting {
  readonly request: UnitRequest
  readonly resolve: (answer: UnitAnswer) => void
  readonly reject: (error: unknown) => void
}

/**
 * Limits on a key-value bucket of NATS: every change of a bucket is an update by its revision. The requests of this
 * process that meet in a bucket are decided together, in one update.
 */
export class NatsBackend implements LimitBackend {
  readonly isLocal = false
  readonly namesCharges = true
  readonly #entries: Entries
  readonly #policies: NatsPolicies
  readonly #steps: Steps
  readonly #corrections: MergedCorrections
  readonly #options: NatsOptions
  readonly #clock: ServerClock
  /** Entries that this process wrote last, and when they may be purged. */
  readonly #ends = new Map<string, { readonly revision: number; readonly endsUs: number }>()
  readonly #apart = ownLines()
  readonly #named = new NamedCharges((error) => error instanceof UnknownFate)
  #waiting: Waiting[] = []
  #isAsking = false
  #purging: Timer | null = null

  constructor(entries: Entries, options: NatsOptions) {
    this.#entries = entries
    this.#options = options
    this.#clock = new ServerClock(entries, `c.${Math.floor(systemRandom.next() * 2 ** 52).toString(36)}`)
    this.#policies = new NatsPolicies(entries)
    this.#steps = new Steps(entries, this.#policies, {
      nowUs: () => this.#nowUs(),
      wrote: (key, revision, bucket) => this.#wrote(key, revision, bucket),
    })
    this.#corrections = new MergedCorrections((name, work) => this.#steps.run([name], work))
  }

  async define(definitions: readonly LimitDefinition[]): Promise<readonly string[]> {
    const nowUs = await this.#nowUs()
    return this.#policies.change(() => {
      const changes = new Map<string, LimitEvent>()
      for (const each of definitions) {
        const event = definitionEvent(this.#policies.timeline(each.name), each, nowUs)
        if (event) changes.set(each.name, event)
      }
      return changes
    })
  }

  acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    const answers = this.#apart(requests).map(
      (request) =>
        new Promise<UnitAnswer>((resolve, reject) => {
          this.#waiting.push({ request, resolve, reject })
        }),
    )
    if (!this.#isAsking) void this.#askAll()
    return Promise.all(answers)
  }

  async reserve(request: UnitRequest, atMostUs: number): Promise<ReservationAnswer> {
    await this.cancel(request.permit)
    const { answer, reservation } = await this.#steps.run(
      request.uses,
      (ledger) => reserveIn(ledger, request, atMostUs),
      (bucket, { reservation }) =>
        reservation && unbook(bucket, this.#policies.timeline(bucket.limit), reservation, bucket.state.atUs),
    )
    if (reservation) await this.#entries.put(reservationKey(request.permit), JSON.stringify(reservation))
    return answer
  }

  async confirm(id: string): Promise<Confirmation> {
    const { reservation, revision } = await this.#reservation(id)
    if (!reservation) return { kind: 'gone' }
    // Of several callers that find it open, the one that removes it begins.
    let isOurs = false
    const begin = (): Promise<ReturnType<typeof confirmIn>> =>
      this.#steps.run(
        reservation.request.uses,
        (ledger) => {
          const confirmed = confirmIn(ledger, reservation)
          if (confirmed.next === null && !isOurs) ledger.leave()
          return confirmed
        },
        (bucket, { answer }, isLost) => isLost && answer.kind === 'granted' && bucket.permits.delete(id),
      )
    let { answer, next } = await begin()
    if (next === null) {
      isOurs = await this.#entries.purge(reservationKey(id), revision)
      if (!isOurs) return { kind: 'gone' }
      ;({ answer, next } = await begin())
    }
    if (next !== null && (isOurs || next !== reservation))
      await this.#entries.put(reservationKey(id), JSON.stringify(next))
    return answer
  }

  async cancel(id: string): Promise<boolean> {
    const { reservation, revision } = await this.#reservation(id)
    // Units that another caller begins with must not return.
    if (!reservation || !(await this.#entries.purge(reservationKey(id), revision))) return false
    // Each bucket by itself: nothing has to happen at once.
    for (const [i, use] of reservation.request.uses.entries()) {
      const request = { ...reservation.request, uses: [use] }
      const alone = { ...reservation, request, booked: reservation.booked.slice(i, i + 1) }
      await this.#steps.run([use], (ledger) => cancelIn(ledger, alone))
    }
    return true
  }

  async release(permits: readonly HeldPermit[]): Promise<void> {
    await this.#eachPermit(permits, (bucket, id) => bucket.permits.delete(id))
  }

  async extend(permits: readonly HeldPermit[], leaseUs: number): Promise<readonly HeldPermit[]> {
    return this.#eachPermit(permits, (bucket, id, nowUs) => {
      if (!bucket.permits.has(id)) return false
      bucket.permits.set(id, nowUs + leaseUs)
      return true
    })
  }

  async charge(bucket: BucketName, units: number, atUs: number, name?: ChargeName): Promise<void> {
    const charge = async (): Promise<void> => void (await this.#corrections.correct(bucket, chargeBy(units, atUs)))
    await this.#named.once(name, charge)
  }

  async penalize(bucket: BucketName, forUs: number): Promise<boolean> {
    return this.#corrections.correct(bucket, closeFor(forUs))
  }

  async calibrate(bucket: BucketName, report: BudgetLeft): Promise<boolean> {
    return this.#corrections.correct(bucket, calibrateTo(report))
  }

  async change(request: ChangeRequest): Promise<boolean> {
    return this.#policies.override(request, await this.#nowUs())
  }

  async inspect({ limit, key }: BucketName): Promise<BucketReport | null> {
    return this.#steps.run([{ limit, key }], (ledger) => {
      const bucket = ledger.bucket(limit, key)
      if (bucket) bucket.changed = false
      return bucket && reportOf(bucket, this.#policies.timeline(limit), ledger.nowUs)
    })
  }

  async forget(bucket: BucketName): Promise<void> {
    await this.#corrections.correct(bucket, renew)
  }

  async ready(): Promise<void> {
    await this.#entries.put('c.ready', '')
  }

  async close(): Promise<void> {
    this.#purging?.cancel()
    await this.#options.close()
  }

  /** Decides all that wait, then those that came meanwhile. */
  async #askAll(): Promise<void> {
    this.#isAsking = true
    // Those of this tick come along.
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      const waiting = this.#waiting
      this.#waiting = []
      await settledWithin(
        QUEUED_MS,
        meeting(waiting).map((group) => this.#ask(group)),
      )
    }
    this.#isAsking = false
  }

  async #ask(group: readonly Waiting[]): Promise<void> {
    const requests = group.map(({ request }) => request)
    try {
      const names = new Map(requests.flatMap(({ uses }) => uses.map((use) => [this.#steps.keyOf(use), use] as const)))
      const answers = await this.#steps.run(
        [...names.values()],
        (ledger) => acquireIn(ledger, requests),
        (bucket, granted, isLost) => {
          for (const [i, answer] of granted.entries()) {
            const request = requests[i]
            if (answer.kind !== 'granted' || !request) continue
            refundIn(bucket, request, answer.atUs)
            if (isLost) bucket.permits.delete(request.permit)
          }
        },
        ({ limit, key }) =>
          requests.map((): UnitAnswer => ({ kind: 'denied', by: { limit, key }, retryAfterUs: BUSY_US })),
      )
      for (const [i, { resolve }] of group.entries()) resolve(this.#aged(answers[i] as UnitAnswer))
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }

  /** A grant as of its answer: the update took its time. */
  #aged(answer: UnitAnswer): UnitAnswer {
    if (answer.kind !== 'granted' || this.#options.nowUs) return answer
    return { ...answer, startInUs: this.#clock.untilUs(answer.atUs) }
  }

  /** Changes permits, bucket by bucket; it returns those that were not held everywhere. */
  async #eachPermit(
    permits: readonly HeldPermit[],
    change: (bucket: NatsBucket, id: string, nowUs: number) => boolean,
  ): Promise<readonly HeldPermit[]> {
    const gone = new Set<HeldPermit>()
    const byBucket = Map.groupBy(
      permits.flatMap((permit) => permit.of.map((name) => ({ permit, name }))),
      ({ name }) => this.#steps.keyOf(name),
    )
    for (const held of byBucket.values()) {
      const name = held[0]?.name
      if (!name) continue
      await this.#steps.run([name], (ledger: Stand) => {
        const bucket = ledger.bucket(name.limit, name.key)
        for (const { permit } of held) {
          if (!bucket || !change(bucket, permit.id, ledger.nowUs)) gone.add(permit)
          else bucket.changed = true
        }
      })
    }
    return permits.filter((permit) => gone.has(permit))
  }

  async #reservation(id: string): Promise<{ reservation: Reservation | null; revision: number }> {
    const { text, revision } = await this.#entries.get(reservationKey(id))
    return { reservation: text === '' ? null : storedReservation(text), revision }
  }

  async #nowUs(): Promise<number> {
    return this.#options.nowUs ? this.#options.nowUs() : this.#clock.nowUs()
  }

  #wrote(key: string, revision: number, bucket: NatsBucket): void {
    this.#ends.delete(key)
    if (this.#ends.size < MOST_REMEMBERED) this.#ends.set(key, { revision, endsUs: bucket.endsUs })
    if (this.#options.nowUs) return
    this.#purging ??= systemClock.setTimer(() => void this.#purge().catch(() => undefined), PURGED_EVERY_MS)
    this.#purging.unref?.()
  }

  /** Removes the entries of buckets that equal new ones, unless another process has changed them. */
  async #purge(): Promise<void> {
    this.#purging = null
    const nowUs = await this.#nowUs()
    for (const [key, { revision, endsUs }] of this.#ends) {
      if (endsUs > nowUs) continue
      this.#ends.delete(key)
      await this.#entries.purge(key, revision).catch(() => false)
    }
    if (this.#ends.size === 0) return
    this.#purging = systemClock.setTimer(() => void this.#purge().catch(() => undefined), PURGED_EVERY_MS)
    this.#purging.unref?.()
  }
}

function reservationKey(id: string): string {
  return `r.${Buffer.from(id).toString('base64url')}`
}

/** Resolves when all are settled, or after this time. */
async function settledWithin(ms: number, all: readonly Promise<void>[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = systemClock.setTimer(resolve, ms)
  await Promise.race([promise, Promise.all(all)])
  timer.cancel()
}

/** Groups the requests that meet in a bucket, directly or through others. The order within a group is kept. */
function meeting(waiting: readonly Waiting[]): Waiting[][] {
  const groupOf = new Map<string, { all: Waiting[] }>()
  for (const each of waiting) {
    const ids = each.request.uses.map(({ limit, key }) => `${limit}\0${key}`)
    const met = new Set(ids.flatMap((id) => groupOf.get(id) ?? []))
    const [first = { all: [] }, ...others] = met
    for (const other of others) {
      first.all.push(...other.all)
      for (const [id, group] of groupOf) if (group === other) groupOf.set(id, first)
    }
    first.all.push(each)
    for (const id of ids) groupOf.set(id, first)
  }
  return [...new Set(groupOf.values())].map(({ all }) => all)
}
