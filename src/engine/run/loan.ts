import type { Clock } from '../../base/clock.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { LineRefusal, PaidBook, Ticket } from '../../limiter/client/paid-book.ts'
import type { ElsewhereTerms, RefusedUnits } from '../../policy/admission/elsewhere.ts'
import type { Claim, Store } from '../../store/contract/store.ts'

/** Who lends paid starts: it knows the backends, and learns what became of the payments. */
export interface Lender {
  /** The backends that answer soon. */
  answering(nowUs: number): ReadonlySet<string>
  /** The limits whose backend is down, and until when on the steady clock. */
  down(nowUs: number): ReadonlyMap<string, number>
  /** A job begins with these payments. */
  begun(job: GrantedJob, tickets: readonly Ticket[]): void
  /** The answer of the claim is lost: these payments may be used. */
  lost(tickets: readonly Ticket[]): void
  /** The loan is over. `left`: it gave back paid starts, which other claims have missed meanwhile. */
  ended(left: boolean): void
}

/** The parts of a loan. */
export interface LoanOptions {
  readonly book: PaidBook
  readonly clock: Clock
  readonly store: Pick<Store, 'nowUs'>
  readonly lender: Lender
}

/** The paid starts that one claim may use. No other claim has them until it ends. */
export class Loan {
  readonly #options: LoanOptions
  #tickets: Ticket[] = []
  #told: (readonly [LineRefusal, RefusedUnits])[] = []

  constructor(options: LoanOptions) {
    this.#options = options
  }

  /** The terms of the claim, read when its transaction runs. */
  terms(): ElsewhereTerms {
    const { book, clock, lender, store } = this.#options
    const nowUs = clock.monotonicUs()
    const aheadUs = store.nowUs() - nowUs
    // An earlier try of the same claim has written nothing.
    book.putBack(this.#tickets)
    this.#tickets = book.take(nowUs)
    this.#told = book.refusals(nowUs).map((refusal) => {
      const { limit, key, weight, untilUs } = refusal
      return [refusal, { limit, key, weight, untilUs: untilUs + aheadUs, told: false }]
    })
    return {
      backends: lender.answering(nowUs),
      paid: this.#tickets.map(({ line: { backend, uses }, untilUs }) => ({
        backend,
        uses,
        starts: 1,
        untilUs: untilUs + aheadUs,
      })),
      refused: this.#told.map(([, refused]) => refused),
      down: new Map([...lender.down(nowUs)].map(([limit, untilUs]) => [limit, untilUs + aheadUs])),
      atMost: book.atMost,
    }
  }

  /** The claim is written. */
  settle({ jobs, wanted = [] }: Pick<Claim, 'jobs' | 'wanted'>): void {
    const { book, lender } = this.#options
    for (const [refusal, { told }] of this.#told) refusal.told ||= told
    for (const job of jobs) {
      const tickets = this.#ticketsOf(job)
      if (tickets.length > 0) lender.begun(job, tickets)
    }
    const left = this.#tickets.length > 0
    book.putBack(this.#tickets)
    this.#tickets = []
    book.wanted(wanted)
    lender.ended(left)
  }

  /** The claim failed, and may be written nevertheless. */
  lose(): void {
    this.#options.lender.lost(this.#tickets)
    this.#tickets = []
    this.#options.lender.ended(false)
  }

  /** Takes the payments of a job: of each backend the one for the most of its uses. */
  #ticketsOf({ uses }: GrantedJob): Ticket[] {
    if (uses.length === 0 || this.#tickets.length === 0) return []
    const found = new Map<string, Ticket>()
    for (const ticket of this.#tickets) {
      const { backend, uses: paid } = ticket.line
      const known = found.get(backend)
      if (known && known.line.uses.length >= paid.length) continue
      const isFor = paid.every((use) =>
        uses.some((each) => each.limit === use.limit && each.key === use.key && each.weight === use.weight),
      )
      if (isFor) found.set(backend, ticket)
    }
    const taken = new Set(found.values())
    if (taken.size > 0) this.#tickets = this.#tickets.filter((ticket) => !taken.has(ticket))
    return [...taken]
  }
}
