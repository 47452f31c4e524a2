import type {
  BucketName,
  BucketReport,
  Confirmation,
  ReservationAnswer,
  UnitAnswer,
  UnitRequest,
} from '../../../limiter/contract/limiter.ts'
import { acquireIn, acquireOne } from '../../../limiter/ledger/acquire.ts'
import { renew, reportOf } from '../../../limiter/ledger/corrections.ts'
import {
  cancelIn,
  confirmIn,
  type Reservation,
  reserveIn,
  storedReservation,
} from '../../../limiter/ledger/reservations.ts'
import { RESERVATION_LAPSES_US } from '../../../policy/limits/booked.ts'
import { requireCommon } from '../../../policy/limits/guarantee.ts'
import { findBucket } from '../buckets.ts'
import { ask, type Reading } from '../reading.ts'
import { type Access, get, now, run } from '../sql.ts'
import { openLedger, requireStorable, StoreLedger } from './ledger.ts'
import { endLeases } from './permits.ts'
import { heldUp, standingAt } from './standing.ts'

const KEEP = `INSERT INTO sluice.permits (id, buckets, until, reservation) VALUES ($1, '[]', $2, $3)
  ON CONFLICT (id) DO UPDATE SET until = excluded.until, reservation = excluded.reservation`
const KNOWN = 'SELECT reservation FROM sluice.permits WHERE id = $1 AND reservation IS NOT NULL'
const TAKE = `${KNOWN} FOR UPDATE`
const GONE = 'DELETE FROM sluice.permits WHERE id = $1 AND reservation IS NOT NULL'

/** The end of an override is to be written before buckets are decided on: their states belong to its policy. */
export class OverrideOver extends Error {
  override readonly name = 'OverrideOver'
}

/**
 * Decides requests in order. A lane that waits for a bucket denies the requests that do not outrank it.
 * @param own the queue of the tickets of the process that asks; null: it has none
 */
export function* acquire(access: Access, requests: readonly UnitRequest[], own: string | null): Reading<UnitAnswer[]> {
  const uses = requests.flatMap((request) => request.uses)
  requireStorable(uses)
  yield* endLeases(access, uses)
  const ledger = yield* openCurrent(access, uses)
  for (const request of requests) requireWhole(ledger, request)
  const standing = yield* standingAt(access, ledger, own)
  const answers = acquireIn(
    ledger,
    requests,
    (request) => heldUp(ledger, standing, request) ?? acquireOne(ledger, request),
  )
  yield* ledger.save(access, true)
  return answers
}

/** Books the exact next start of a request, unless a lane waits for one of its buckets. */
export function* reserve(access: Access, request: UnitRequest, atMostUs: number): Reading<ReservationAnswer> {
  const ledger = yield* openCurrent(access, request.uses)
  requireWhole(ledger, request)
  const denied = heldUp(ledger, yield* standingAt(access, ledger, null), request)
  if (denied) return denied
  const before = yield* reservationOf(access, TAKE, request.permit)
  const { answer, reservation } = reserveIn(ledger, request, atMostUs, before)
  yield* ledger.save(access)
  if (reservation) yield* keep(access, reservation)
  else if (before) yield* run(access.db, GONE, request.permit)
  return answer
}

/** Decides at the start of a reservation whether it stands. */
export function* confirm(access: Access, id: string): Reading<Confirmation> {
  const known = yield* reservationOf(access, KNOWN, id)
  if (!known) return { kind: 'gone' }
  yield* endLeases(access, known.request.uses)
  const ledger = yield* openCurrent(access, known.request.uses)
  // Read again behind the locks of its buckets: another call may have confirmed it.
  const reservation = yield* reservationOf(access, TAKE, id)
  if (!reservation) return { kind: 'gone' }
  const { answer, next } = confirmIn(ledger, reservation)
  if (next) yield* keep(access, next)
  else yield* run(access.db, GONE, id)
  yield* ledger.save(access)
  return answer
}

/** Gives a reservation back, as far as no later start counts on it. */
export function* cancelReservation(access: Access, id: string): Reading<boolean> {
  const known = yield* reservationOf(access, KNOWN, id)
  if (!known) return false
  const ledger = yield* openLedger(access, known.request.uses)
  if ((yield* run(access.db, GONE, id)) === 0) return false
  cancelIn(ledger, known)
  ledger.wakes = true
  yield* ledger.save(access)
  return true
}

/** Makes a bucket new again. Its permits stay. */
export function* forget(access: Access, name: BucketName): Reading<void> {
  const ledger = yield* openLedger(access, [name])
  const bucket = ledger.bucket(name.limit, name.key)
  if (!bucket) return
  renew(bucket, ledger.nowUs)
  bucket.changed = true
  ledger.wakes = true
  yield* ledger.save(access)
}

/** The present state of a bucket; it is not created. */
export function* inspectBucket(access: Access, { limit, key }: BucketName): Reading<BucketReport | null> {
  requireStorable([{ limit, key }])
  const limits = yield* ask(() => access.limits())
  const instant = yield* now(access)
  const stored = yield* findBucket(access, instant, limit, key)
  if (!stored?.policy) return null
  const ledger = new StoreLedger({ buckets: [stored], limits, instant, standing: [] })
  const bucket = ledger.bucket(limit, key)
  return bucket && reportOf(bucket, limits.timeline(limit), instant.nowUs)
}

/** @throws {OverrideOver} */
function* openCurrent(access: Access, names: readonly BucketName[]): Reading<StoreLedger> {
  const ledger = yield* openLedger(access, names)
  if (ledger.limits.nextEndUs <= ledger.nowUs) throw new OverrideOver()
  return ledger
}

/** @throws {SluiceError} `policy.invalid` for a share of a common limit that the request leaves out */
function requireWhole(ledger: StoreLedger, { uses }: UnitRequest): void {
  for (const { limit, key } of uses) requireCommon(limit, ledger.bucket(limit, key)?.policy, uses)
}

function keep({ db }: Access, reservation: Reservation): Reading<number> {
  const { request, startUs } = reservation
  return run(db, KEEP, request.permit, startUs + RESERVATION_LAPSES_US, JSON.stringify(reservation))
}

function* reservationOf({ db }: Access, sql: string, id: string): Reading<Reservation | null> {
  const row = yield* get<[string]>(db, sql, id)
  return row ? storedReservation(row[0]) : null
}
