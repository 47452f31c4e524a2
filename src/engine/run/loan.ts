import type { GrantedJob } from '../../jobs/job.ts'
import type { LineRefusal, PaidBook, Ticket } from '../../limiter/client/paid-book.ts'
import type { ElsewhereTerms, RefusedUnits } from '../../policy/admission/elsewhere.ts'
import type { Claim } from '../../store/contract/store.ts'

/** The parts of a loan. */
export interface LoanOptions {
  readonly book: PaidBook
  readonly monotonicUs: () => number
  readonly storeUs: () => number
  /** The backends that answer soon. */
  readonly backends: (nowUs: number) => ReadonlySet<string>
  /** The limits whose backend is down, and until when on the steady clock. */
  readonly down: (nowUs: number) => ReadonlyMap<string, number>
  /** A job begins with these payments. */
  readonly begun: (job: GrantedJob, tickets: readonly Ticket[]) => void
  /** The answer of the claim is lost: these payments may be used. */
  readonly lost: (tickets: readonly Ticket[]) => void
  /** The loan is over. */
  readonly ended: () => void
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
    const { book, monotonicUs, storeUs, backends, down } = this.#options
    const nowUs = monotonicUs()
    const aheadUs = storeUs() - nowUs
    // An earlier try of the same claim has written nothing.
    book.putBack(this.#tickets)
    this.#tickets = book.take(nowUs)
    this.#told = book.refusals(nowUs).map((refusal) => {
      const { limit, key, weight, untilUs } = refusal
      return [refusal, { limit, key, weight, untilUs: untilUs + aheadUs, told: false }]
    })
    return {
      backends: backends(nowUs),
      paid: this.#tickets.map(({ line: { backend, uses }, untilUs }) => ({
        backend,
        uses,
        starts: 1,
        untilUs: untilUs + aheadUs,
      })),
      refused: this.#told.map(([, refused]) => refused),
      down: new Map([...down(nowUs)].map(([limit, untilUs]) => [limit, untilUs + aheadUs])),
      atMost: book.atMost,
    }
  }

  /** The claim is written. */
  settle({ jobs, wanted = [] }: Pick<Claim, 'jobs' | 'wanted'>): void {
    const { book, begun, ended } = this.#options
    for (const [refusal, { told }] of this.#told) refusal.told ||= told
    for (const job of jobs) {
      const tickets = this.#ticketsOf(job)
      if (tickets.length > 0) begun(job, tickets)
    }
    book.putBack(this.#tickets)
    this.#tickets = []
    book.wanted(wanted)
    ended()
  }

  /** The claim failed, and may be written nevertheless. */
  lose(): void {
    this.#options.lost(this.#tickets)
    this.#tickets = []
    this.#options.ended()
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
