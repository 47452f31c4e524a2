import {
  beginBooked,
  type BookedUse,
  forgetBooked,
  moveOf,
  movedUs,
  noteBooked,
  isStricterSince,
} from '../../policy/limits/booked-start.ts'
import { charge } from '../../policy/limits/bucket.ts'
import { chargeAcross, endsBefore, isCountable, noteCharge, refundBooked } from '../../policy/limits/charge-across.ts'
import { isNear } from '../../policy/rules/fixed-window.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type { ReservationAnswer, Confirmation, UnitRequest } from '../contract/limiter.ts'
import { bucketsOf, denial, openingOf, takePermits } from './acquire.ts'
import type { Ledger, LedgerBucket } from './ledger.ts'

/** A booked start: its units are taken as of its instant. */
export interface Reservation {
  readonly request: UnitRequest
  /** The instant at which it was booked. Starts before it that begin late move it. */
  readonly startUs: number
  /** Its memory of each bucket, in the order of its uses. */
  readonly booked: readonly BookedUse[]
  /** Whether its units are taken. They are not while its start lies in a fixed window beyond the next. */
  readonly taken: boolean
}

/** The text of a reservation as backends keep it. Earlier versions remembered nothing of its buckets. */
export function storedReservation(text: string): Reservation {
  const stored = JSON.parse(text) as Omit<Reservation, 'booked'> & { readonly booked?: readonly BookedUse[] }
  return { ...stored, booked: stored.booked ?? [] }
}

/** A permit that a reservation lacks at its start is asked for again after this time. */
const PERMIT_POLL_US = 50_000

/**
 * Books the next start of a request. A reservation takes no permit: `confirm` does.
 * @param before the reservation under the same id, as of an answer that was lost: its units return first
 */
export function reserveIn(
  ledger: Ledger,
  request: UnitRequest,
  atMostUs: number,
  before: Reservation | null = null,
): { readonly answer: ReservationAnswer; readonly reservation: Reservation | null } {
  const buckets = bucketsOf(ledger, request)
  if (!Array.isArray(buckets)) return { answer: buckets, reservation: null }
  if (before) cancelIn(ledger, before)
  const { reservation, by } = book(ledger, buckets, request, atMostUs)
  const startAfterUs = reservation.startUs - ledger.nowUs
  if (reservation.taken) return { answer: { kind: 'booked', id: request.permit, startAfterUs }, reservation }
  return { answer: denial(by ?? (buckets[0] as LedgerBucket), reservation.startUs, ledger.nowUs), reservation: null }
}

/** The next start of a request, taken unless it is too far away. */
function book(
  ledger: Ledger,
  buckets: readonly LedgerBucket[],
  request: UnitRequest,
  atMostUs: number,
): { readonly reservation: Reservation; readonly by: LedgerBucket | null } {
  const { nowUs } = ledger
  const { atUs, by } = openingOf(ledger, buckets, request, nowUs, true)
  const untaken = { reservation: { request, startUs: atUs, booked: [], taken: false }, by }
  if (atUs === Infinity || atUs - nowUs > atMostUs) return untaken
  const ends = buckets.map((bucket) => endsBefore(ledger.timeline(bucket.limit), bucket, atUs))
  const isFar = buckets.some((bucket, i) => {
    const { rule } = bucket.policy
    const end = ends[i]
    if (end && !isCountable(bucket, end, request.uses[i]?.weight ?? 1)) return true
    return rule?.kind === 'fixed' && !isNear(rule, nowUs, atUs)
  })
  if (isFar) return untaken
  const booked = buckets.map((bucket, i) => {
    const { policy, state } = bucket
    const end = ends[i] ?? null
    const use = noteBooked(end?.bucket.policy ?? policy, state, atUs)
    const startedUs = state.booked?.startedUs ?? 0
    const weight = request.uses[i]?.weight ?? 1
    const charged = noteCharge(ledger.timeline(bucket.limit), bucket, nowUs, end, () => {
      if (end) chargeAcross(bucket, end, nowUs, weight, atUs)
      else charge(policy, state, nowUs, weight, atUs)
    })
    // It has not begun.
    if (state.booked) state.booked.startedUs = startedUs
    bucket.changed = true
    // How late it may begin is known after the end alone.
    return { ...use, ...(end && policy.rule?.kind === 'rate' && { graceUs: 0 }), ...(charged && { charged }) }
  })
  return { reservation: { request, startUs: atUs, booked, taken: true }, by }
}

/** Decides at the start of a reservation whether it stands. `next`: the reservation from then on; null: it is over. */
export function confirmIn(
  ledger: Ledger,
  reservation: Reservation,
): { readonly answer: Confirmation; readonly next: Reservation | null } {
  const { nowUs } = ledger
  const { request } = reservation
  const buckets = bucketsOf(ledger, request)
  if (!Array.isArray(buckets)) return { answer: { kind: 'gone' }, next: null }
  const wait = (by: LedgerBucket, startAfterUs: number, next: Reservation): ReturnType<typeof confirmIn> => ({
    answer: { kind: 'wait', startAfterUs, by: { limit: by.limit, key: by.key } },
    next,
  })
  const { dueUs, by } = dueOf(buckets, reservation)
  if (by && dueUs > nowUs) return wait(by, dueUs - nowUs, reservation)
  const full = buckets.find(({ policy, active }) => policy.concurrency !== null && active >= policy.concurrency)
  if (full) return wait(full, PERMIT_POLL_US, reservation)
  const closed = buckets.find(({ state }) => state.closedUntilUs > nowUs)
  let now = reservation
  if (closed || !reservation.taken || isLost(ledger, buckets, reservation)) {
    giveBack(ledger, buckets, reservation)
    const again = book(ledger, buckets, request, Infinity)
    now = again.reservation
    if (again.by) return wait(closed ?? again.by, now.startUs - nowUs, now)
  }
  begin(buckets, now, nowUs)
  return { answer: { kind: 'granted', atUs: nowUs, permit: takePermits(buckets, request, nowUs) }, next: null }
}

/** The instant of a reservation, as starts that began late have moved it, and the bucket that moved it most. */
function dueOf(
  buckets: readonly LedgerBucket[],
  { startUs, booked }: Reservation,
): { readonly dueUs: number; readonly by: LedgerBucket | undefined } {
  let [dueUs, by] = [startUs, buckets[0]]
  for (let i = 0; i < buckets.length; i++) {
    const bucket = buckets[i] as LedgerBucket
    const movedToUs = movedUs(bucket.state, booked[i] ?? EXACT, startUs)
    if (movedToUs > dueUs) [dueUs, by] = [movedToUs, bucket]
  }
  return { dueUs, by }
}

/** A later start has taken the place of this one, or the rules have become stricter since its instant. */
function isLost(ledger: Ledger, buckets: readonly LedgerBucket[], { startUs, booked }: Reservation): boolean {
  return buckets.some(({ limit, key, policy, state }, i) => {
    const byUs = moveOf(policy, state, booked[i] ?? EXACT, startUs, ledger.nowUs)
    return byUs === null || isStricterSince(ledger.timeline(limit), key, startUs)
  })
}

/** Begins a booked start. */
function begin(buckets: readonly LedgerBucket[], { startUs, booked }: Reservation, nowUs: number): void {
  for (let i = 0; i < buckets.length; i++) {
    const bucket = buckets[i] as LedgerBucket
    const { policy, state } = bucket
    const use = booked[i] ?? EXACT
    const byUs = moveOf(policy, state, use, startUs, nowUs) ?? 0
    beginBooked(state, use, startUs, byUs, nowUs)
    bucket.changed = true
  }
}

/** Gives the units of a reservation back, as far as no later start counts on them. */
export function cancelIn(ledger: Ledger, reservation: Reservation): void {
  const buckets = bucketsOf(ledger, reservation.request)
  if (Array.isArray(buckets)) giveBack(ledger, buckets, reservation)
}

function giveBack(ledger: Ledger, buckets: readonly LedgerBucket[], reservation: Reservation): void {
  const { nowUs } = ledger
  if (!reservation.taken) return
  for (const bucket of buckets) unbook(bucket, ledger.timeline(bucket.limit), reservation, nowUs)
}

/** Gives back what a reservation took from one bucket. */
export function unbook(
  bucket: LedgerBucket,
  timeline: Timeline,
  { request, startUs, booked }: Reservation,
  nowUs: number,
): void {
  const { state, limit, key } = bucket
  const i = request.uses.findIndex((use) => use.limit === limit && use.key === key)
  const use = booked[i] ?? EXACT
  const weight = request.uses[i]?.weight ?? 1
  const chargedAtUs = movedUs(state, use, startUs)
  refundBooked(timeline, bucket, nowUs, weight, chargedAtUs, use.charged ?? null)
  forgetBooked(state)
  bucket.changed = true
}

/** The memory of a bucket that has none. */
const EXACT: BookedUse = { lateUs: 0, backUs: 0, graceUs: 0 }
