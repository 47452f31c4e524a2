import { RESERVATION_LAPSES_US } from '../../policy/limits/booked.ts'
import { type Reservation, storedReservation } from '../ledger/reservations.ts'

/** A reservation as Redis keeps it, and for how long. */
export function stored(reservation: Reservation, nowUs: number): { text: string; ttlMs: number } {
  const leftUs = Math.max(0, reservation.startUs - nowUs) + RESERVATION_LAPSES_US
  return { text: JSON.stringify(reservation), ttlMs: Math.ceil(leftUs / 1000) }
}

/** A reservation that Redis has kept; null: there is none. */
export function parsed(text: string | null | undefined): Reservation | null {
  return text === null || text === undefined ? null : storedReservation(text)
}
