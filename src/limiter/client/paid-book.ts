/** The starts that a process has paid for at backends, wants, or was refused. Pure: times are arguments. */
import { idOfBucket, idOfStart, type WantedStart } from '../../policy/admission/elsewhere.ts'
import type { BucketName, Denied, HeldPermit } from '../contract/limiter.ts'

/** A refused line asks again by itself so often; then a decision has to want it again. */
const ASKS_BY_ITSELF = 8
/** A refusal is remembered for at most so long: meanwhile another process may have changed the limit. */
const REMEMBERED_US = 60_000_000
/** A line that waits for a permit of another process asks again after this time, and then after twice as long. */
const POLL_US = 5000
const SLOWEST_POLL_US = 250_000
/** A bucket that grants this many units at once needs no bound. */
const UNBOUNDED = 1000

/** One start that is paid. */
export interface Ticket {
  readonly line: PaidLine
  readonly permit: HeldPermit | null
  /** The instant of the payment on the backend's clock. */
  readonly atUs: number
  /** That instant on the steady clock: its handler may not begin before. */
  readonly fromUs: number
  /** No decision takes it after this instant of the steady clock. */
  readonly untilUs: number
  /** Its handler may not begin after this instant of the steady clock. */
  readonly lateUs: number
  /** When the backend was asked, on the steady clock. */
  readonly askedUs: number
}

/** All starts with the same uses at one backend. */
export interface PaidLine extends WantedStart {
  readonly id: string
  /** Starts to ask for. */
  wants: number
  /** Starts that are asked for now. */
  asked: number
  /** Paid, and not taken; the first paid first. */
  tickets: Ticket[]
  /** The bucket that refused, and until when, on the steady clock; null: none. */
  refusal: LineRefusal | null
  /** How often it has asked by itself since a decision wanted it. */
  alone: number
  polls: number
}

/** A refusal, as the next decision has to know it. */
export interface LineRefusal {
  readonly limit: string
  readonly key: string
  readonly weight: number
  readonly untilUs: number
  /** Its line asks again then: so much earlier as the backend may grant starts ahead. */
  readonly againUs: number
  /** A permit has to return; the instant is that of the next question. */
  readonly forPermit: boolean
  /** A written decision knows it. */
  told: boolean
}

/** The terms on which a line asks again. */
export interface AskTerms {
  /** How far ahead of their instants the backend grants starts to this process. */
  readonly withinUs: number
  /** Its share of the bucket that refused: at least so many units may be wanted at once. */
  readonly units: number
}

/** The lines of one process, for all its backends. */
export class PaidBook {
  readonly #lines = new Map<string, PaidLine>()
  /** The most units of a bucket to want at once, by its id. */
  readonly atMost: Map<string, number> = new Map()
  readonly #refusals = new Set<LineRefusal>()

  /** Notes what a decision wants. */
  wanted(starts: readonly WantedStart[]): void {
    const counts = new Map<string, { readonly start: WantedStart; count: number }>()
    for (const start of starts) {
      const id = idOfStart(start)
      const found = counts.get(id)
      if (found) found.count++
      else counts.set(id, { start, count: 1 })
    }
    for (const [id, { start, count }] of counts) {
      const line = this.#lines.get(id) ?? newLine(id, start)
      this.#lines.set(id, line)
      line.alone = 0
      line.wants = Math.max(0, count - line.asked - line.tickets.length)
      // A decision that knew of the refusal and wants the start has found it void.
      if (line.refusal?.told) this.#forget(line)
    }
  }

  /** The lines of a backend that ask now, with the number of starts of each. */
  asking(backend: string, nowUs: number): (readonly [PaidLine, number])[] {
    const asking: [PaidLine, number][] = []
    for (const line of this.#lines.values()) {
      if (line.backend !== backend || line.wants === 0 || line.asked > 0 || (line.refusal?.againUs ?? 0) > nowUs)
        continue
      line.asked = line.wants
      line.wants = 0
      asking.push([line, line.asked])
    }
    return asking
  }

  /** When the next line asks by itself; null: none does. */
  get nextUs(): number | null {
    let nextUs: number | null = null
    for (const { wants, asked, refusal } of this.#lines.values())
      if (wants > 0 && asked === 0) nextUs = Math.min(nextUs ?? Infinity, refusal?.againUs ?? 0)
    return nextUs
  }

  /** The answers to what a line asked: starts that were paid, and a refusal of the others. */
  answered(
    line: PaidLine,
    paid: readonly Omit<Ticket, 'line'>[],
    denied: Denied | null,
    nowUs: number,
    { withinUs, units }: AskTerms = { withinUs: 0, units: 0 },
  ): void {
    const { asked } = line
    line.asked = 0
    this.#forget(line)
    line.tickets.push(...paid.map((ticket) => ({ ...ticket, line })))
    if (paid.length > 0) line.polls = 0
    this.#bound(line, paid.length, denied, units)
    if (!denied) return
    const { by, retryAfterUs } = denied
    const waitUs = retryAfterUs ?? Math.min(POLL_US * 2 ** Math.min(line.polls++, 10), SLOWEST_POLL_US)
    const weight = line.uses.find((use) => use.limit === by.limit && use.key === by.key)?.weight ?? 1
    const untilUs = nowUs + Math.max(1, Math.min(waitUs, REMEMBERED_US))
    const againUs = Math.max(nowUs + 1, untilUs - withinUs)
    line.refusal = { ...by, weight, untilUs, againUs, forPermit: retryAfterUs === null, told: false }
    this.#refusals.add(line.refusal)
    if (line.alone++ < ASKS_BY_ITSELF) line.wants = Math.max(line.wants, asked - paid.length)
  }

  /** A call that failed: nothing was paid, as far as this process knows. */
  failed(line: PaidLine): void {
    line.asked = 0
  }

  /** Takes out all tickets that may still begin, for a decision. */
  take(nowUs: number): Ticket[] {
    const taken: Ticket[] = []
    for (const line of this.#lines.values()) {
      if (line.tickets.length === 0) continue
      const isIn = (ticket: Ticket): boolean => ticket.untilUs >= nowUs
      taken.push(...line.tickets.filter(isIn))
      line.tickets = line.tickets.filter((ticket) => !isIn(ticket))
    }
    return taken
  }

  /** Puts tickets back that a decision did not take. */
  putBack(tickets: readonly Ticket[]): void {
    for (const ticket of tickets) {
      const line = this.#lines.get(ticket.line.id) ?? ticket.line
      this.#lines.set(line.id, line)
      line.tickets.push(ticket)
    }
  }

  /** Takes out the tickets that may not begin any more. */
  lapsed(nowUs: number): Ticket[] {
    const lapsed: Ticket[] = []
    for (const line of this.#lines.values()) {
      lapsed.push(...line.tickets.filter((ticket) => ticket.untilUs < nowUs))
      line.tickets = line.tickets.filter((ticket) => ticket.untilUs >= nowUs)
      if (line.tickets.length + line.wants + line.asked === 0 && (line.refusal?.untilUs ?? 0) <= nowUs)
        this.#remove(line)
    }
    return lapsed
  }

  /** When the first ticket lapses; null: there is none. */
  get lapsesUs(): number | null {
    let firstUs: number | null = null
    for (const { tickets } of this.#lines.values())
      for (const { untilUs } of tickets) firstUs = Math.min(firstUs ?? Infinity, untilUs)
    return firstUs
  }

  /** The refusals that no written decision knows, with their rest. */
  refusals(nowUs: number): LineRefusal[] {
    for (const refusal of this.#refusals) if (refusal.untilUs <= nowUs) this.#refusals.delete(refusal)
    return [...this.#refusals].filter(({ told }) => !told)
  }

  /** Permits of these buckets have returned, or units: answers those that lines lacked. */
  returned(buckets: readonly BucketName[], permits: boolean): BucketName[] {
    const ids = new Set(buckets.map(idOfBucket))
    const lacked = new Map<string, BucketName>()
    for (const line of this.#lines.values()) {
      const { refusal } = line
      if (refusal?.forPermit !== permits || !ids.has(idOfBucket(refusal))) continue
      lacked.set(idOfBucket(refusal), { limit: refusal.limit, key: refusal.key })
      this.#forget(line)
      line.polls = 0
    }
    return [...lacked.values()]
  }

  /** How many units of the refusing bucket one decision wants next. */
  #bound(line: PaidLine, granted: number, denied: Denied | null, least: number): void {
    for (const use of line.uses) {
      const id = idOfBucket(use)
      const known = this.atMost.get(id)
      const isBy = denied && denied.by.limit === use.limit && denied.by.key === use.key
      if (isBy) this.atMost.set(id, Math.max(use.weight, least, Math.min(known ?? Infinity, 2 * granted * use.weight)))
      else if (known !== undefined && !denied && known * 2 > UNBOUNDED) this.atMost.delete(id)
      else if (known !== undefined && !denied) this.atMost.set(id, known * 2)
    }
  }

  #forget(line: PaidLine): void {
    if (line.refusal) this.#refusals.delete(line.refusal)
    line.refusal = null
  }

  #remove(line: PaidLine): void {
    this.#forget(line)
    this.#lines.delete(line.id)
  }
}

function newLine(id: string, { backend, uses, priority }: WantedStart): PaidLine {
  const empty = { wants: 0, asked: 0, tickets: [], refusal: null, alone: 0, polls: 0 }
  return { id, backend, uses, priority, ...empty }
}
