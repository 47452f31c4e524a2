import { charge, refund } from '../../policy/limits/bucket.ts'
import { isNear } from '../../policy/rules/fixed-window.ts'
import type { ReservationAnswer, Confirmation, UnitRequest } from '../contract/limiter.ts'
import { bucketsOf, denial, openingOf, takePermits } from './acquire.ts'
import type { Ledger, LedgerBucket } from './ledger.ts'

/** A booked start: its units are taken as of its instant. */
export interface Reservation {
  readonly request: UnitRequest
  readonly startUs: number
  /** Whether its units are taken. They are not while its start lies in a fixed window beyond the next. */
  readonly taken: boolean
}

/** A reservation that is not confirmed for so long after its start lapses. Its units stay taken. */
export const RESERVATION_LAPSES_US = 600_000_000

/** A permit that a reservation lacks at its start is asked for again after this time. */
const PERMIT_POLL_US = 50_000

/** A start that is confirmed later than this is booked again: several late ones could begin together. */
const LATE_US = 50_000

/** Books the next start of a request. A reservation takes no permit: `confirm` does. */
export function reserveIn(
  ledger: Ledger,
  request: UnitRequest,
  atMostUs: number,
): { readonly answer: ReservationAnswer; readonly reservation: Reservation | null } {
  const buckets = bucketsOf(ledger, request)
  if (!Array.isArray(buckets)) return { answer: buckets, reservation: null }
  const { reservation, by } = book(ledger, buckets, request, atMostUs)
  const startAfterUs = reservation.startUs - ledger.nowUs
  if (reservation.taken) return { answer: { kind: 'booked', id: request.permit, startAfterUs }, reservation }
  return { answer: denial(by ?? (buckets[0] as LedgerBucket), reservation.startUs, ledger.nowUs), reservation: null }
}

/** The next start of a request, taken unless it is too far away. */
function book(
  { nowUs }: Ledger,
  buckets: readonly LedgerBucket[],
  request: UnitRequest,
  atMostUs: number,
): { readonly reservation: Reservation; readonly by: LedgerBucket | null } {
  const { atUs, by } = openingOf(buckets, request, nowUs, true)
  const isFar = buckets.some(({ policy: { rule } }) => rule?.kind === 'fixed' && !isNear(rule, nowUs, atUs))
  if (atUs === Infinity || atUs - nowUs > atMostUs || isFar)
    return { reservation: { request, startUs: atUs, taken: false }, by }
  for (let i = 0; i < buckets.length; i++) {
    const bucket = buckets[i] as LedgerBucket
    charge(bucket.policy, bucket.state, nowUs, request.uses[i]?.weight ?? 1, atUs)
    bucket.changed = true
  }
  return { reservation: { request, startUs: atUs, taken: true }, by }
}

/** Decides at the start of a reservation whether it stands. `next`: the reservation from then on; null: it is over. */
export function confirmIn(
  ledger: Ledger,
  reservation: Reservation,
): { readonly answer: Confirmation; readonly next: Reservation | null } {
  const { nowUs } = ledger
  const { request, startUs } = reservation
  const buckets = bucketsOf(ledger, request)
  if (!Array.isArray(buckets)) return { answer: { kind: 'gone' }, next: null }
  const wait = (by: LedgerBucket, startAfterUs: number, next: Reservation): ReturnType<typeof confirmIn> => ({
    answer: { kind: 'wait', startAfterUs, by: { limit: by.limit, key: by.key } },
    next,
  })
  const [first] = buckets
  if (first && startUs > nowUs) return wait(first, startUs - nowUs, reservation)
  const full = buckets.find(({ policy, active }) => policy.concurrency !== null && active >= policy.concurrency)
  if (full) return wait(full, PERMIT_POLL_US, reservation)
  const closed = buckets.find(({ state }) => state.closedUntilUs > nowUs)
  let now = reservation
  if (closed || !reservation.taken || nowUs - startUs > LATE_US) {
    giveBack(ledger, buckets, reservation)
    const again = book(ledger, buckets, request, Infinity)
    now = again.reservation
    if (again.by) return wait(closed ?? again.by, now.startUs - nowUs, now)
  }
  return { answer: { kind: 'granted', atUs: now.startUs, permit: takePermits(buckets, request, nowUs) }, next: null }
}

/** Gives the units of a reservation back, as far as no later start counts on them. */
export function cancelIn(ledger: Ledger, reservation: Reservation): void {
  const buckets = bucketsOf(ledger, reservation.request)
  if (Array.isArray(buckets)) giveBack(ledger, buckets, reservation)
}

function giveBack({ nowUs }: Ledger, buckets: readonly LedgerBucket[], { request, startUs, taken }: Reservation): void {
  if (!taken) return
  for (let i = 0; i < buckets.length; i++) {
    const bucket = buckets[i] as LedgerBucket
    refund(bucket.policy, bucket.state, nowUs, request.uses[i]?.weight ?? 1, startUs)
    bucket.changed = true
  }
}
