import type { Clock } from '../../base/clock.ts'
import type { Denied, Granted, UnitRequest } from '../../limiter/contract/limiter.ts'

/** A caller that waits. */
export interface Ticket {
  id: string
  request: UnitRequest
  /** The refusal that made it wait. */
  readonly denied: Denied
  readonly sinceUs: number
  /** The uses and the priority: tickets of one line start in their order. */
  readonly line: string
  /** When its caller leaves, on the steady clock. */
  readonly untilUs: number
  stored: 'no' | 'soon' | 'yes'
  settle(end: Granted | Denied | Error): void
}

/** A line for whose budget other processes wait too. */
interface Crowd {
  readonly line: string
  readonly denied: Denied
  readonly untilUs: number
}

/** That others wait for the same is taken for granted for so long. */
const CROWD_US = 500_000

/** The lines of the tickets of one process. Those of one line start in their order. */
export class TicketLines {
  readonly #clock: Clock
  readonly #lines = new Map<string, { readonly waiting: Set<Ticket>; last: Ticket }>()
  /** The only line, while it lasts that others wait for the same. */
  crowd: Crowd | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#lines.size
  }

  /** The last ticket that has come to a line; it may have left. Undefined: the line is empty. */
  last(line: string): Ticket | undefined {
    return this.#lines.get(line)?.last
  }

  add(ticket: Ticket): void {
    const found = this.#lines.get(ticket.line)
    if (found) found.last = ticket
    else this.#lines.set(ticket.line, { waiting: new Set(), last: ticket })
    this.#lines.get(ticket.line)?.waiting.add(ticket)
  }

  remove(ticket: Ticket): void {
    const { waiting } = this.#lines.get(ticket.line) ?? {}
    if (waiting?.delete(ticket) && waiting.size === 0) this.#lines.delete(ticket.line)
  }

  /**
   * The ticket that has waited longest in the line of a granted one. The two are exchanged but for their callers: a start
   * that came too late is granted again behind others of its line.
   */
  oldest(granted: Ticket): Ticket {
    for (const oldest of this.#lines.get(granted.line)?.waiting ?? []) {
      if (oldest.stored !== 'yes' || oldest === granted) return granted
      const { id, request } = oldest
      Object.assign(oldest, { id: granted.id, request: granted.request })
      Object.assign(granted, { id, request })
      return oldest
    }
    return granted
  }

  /** The refusal of a ticket that has waited for too long. */
  lateness({ denied, sinceUs }: Ticket): Denied {
    const leftUs = (denied.retryAfterUs ?? 0) - (this.#clock.monotonicUs() - sinceUs)
    return { ...denied, retryAfterUs: leftUs > 0 ? leftUs : null }
  }

  /** Others wait for the same as this line does. @param denied the refusal of its calls */
  crowds(line: string, denied: Denied): void {
    this.crowd = { line, denied, untilUs: this.#clock.monotonicUs() + CROWD_US }
  }

  /** The crowd of a line; null: it has none. */
  crowdOf(line: string): Crowd | null {
    const { crowd } = this
    return crowd?.line === line && this.#clock.monotonicUs() <= crowd.untilUs ? crowd : null
  }
}

/** Tickets of one line have the same lane, and cost the same. */
export function lineOf({ uses, priority }: UnitRequest): string {
  return JSON.stringify([priority, uses.map(({ limit, key, weight }) => [limit, key, weight])])
}
