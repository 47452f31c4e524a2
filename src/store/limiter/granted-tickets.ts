import type { Clock } from '../../base/clock.ts'
import { persist } from '../../base/persist.ts'
import { type BucketName, Hold } from '../../jobs/hold.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { Granted, UnitRequest } from '../../limiter/contract/limiter.ts'
import type { Claim, Run, Store } from '../contract/store.ts'

/** The parts of granted tickets. */
export interface GrantedTicketsOptions {
  readonly store: Store
  readonly clock: Clock
  readonly leaseUs: number
  /** How far ahead they are granted, in µs. */
  readonly aheadUs: number
  /** The request of a ticket; undefined: its caller has left. */
  readonly requestOf: (id: string) => UnitRequest | undefined
  /** The caller of a ticket may start. */
  readonly begin: (job: GrantedJob, granted: Granted) => void
  /** Tickets wait again. @param failed a write failed: rows of this process may be active without a start */
  readonly returned: (failed: boolean) => void
  /** The claim on its way; null: there is none. */
  readonly claiming: () => Promise<void> | null
}

/**
 * The tickets that claims have granted. Each is held until its instant. Its row goes with its start, and what it holds
 * of permits becomes a permit.
 */
export class GrantedTickets {
  readonly #options: GrantedTicketsOptions
  readonly #hold: Hold
  #worker = 0
  /** The answer to the last claim, on the store's clock. */
  #claimedUs = 0
  /** Those without a start so far, by their ids. */
  readonly #pending = new Map<string, GrantedJob>()
  /** Those that have started without a permit, and whose rows go. */
  #started: GrantedJob[] = []
  #removing: Promise<void> | null = null
  /** Those of this turn of the event loop that take permits: one write begins them. */
  #due: GrantedJob[] = []
  /** The writes of starts under way. Each tells whether it succeeded. */
  readonly #beginning = new Set<Promise<boolean>>()

  constructor(options: GrantedTicketsOptions) {
    this.#options = options
    const { aheadUs, clock, store, claiming } = options
    this.#hold = new Hold({
      clock,
      store,
      aheadUs,
      budgets: null,
      starter: {
        begin: (job) => this.#beginOne(job),
        giveBack: (jobs) => this.#giveBack(jobs),
        claiming,
        beginning: () => Promise.all(this.#beginning),
      },
    })
  }

  /** Those without a start so far. */
  get count(): number {
    return this.#pending.size
  }

  has(id: string): boolean {
    return this.#pending.has(id)
  }

  /** Halfway from the last claim to the start of a ticket, on the store's clock; null: it is not granted. */
  halfwayUs(id: string): number | null {
    const job = this.#pending.get(id)
    return job ? (this.#claimedUs + Math.max(this.#claimedUs, job.startedUs)) / 2 : null
  }

  /** The rows of this worker that are active for a reason. */
  runs(): readonly Run[] {
    return [...this.#pending.values(), ...this.#started]
  }

  /** The part of a claim's request that concerns starts ahead. */
  terms(): ReturnType<Hold['terms']> {
    return this.#hold.terms()
  }

  /** Runs a change of limits, before which the held starts that use them go back. */
  changing<T>(uses: (use: BucketName) => boolean, change: () => Promise<T>): Promise<T> {
    return this.#hold.changing(uses, change)
  }

  /** Begins the tickets of a claim that are due, and holds the others. @returns whether the writes of starts succeeded */
  async add(worker: number, claim: Claim): Promise<boolean> {
    this.#worker = worker
    this.#claimedUs = this.#options.store.nowUs()
    for (const job of claim.jobs) this.#pending.set(job.id, job)
    void this.#giveBack(this.#hold.recall(claim))
    this.#hold.add(claim.jobs, claim.nowUs)
    const begun = await Promise.all(this.#beginning)
    this.#removeSoon()
    return !begun.includes(false)
  }

  /** Gives back those of these tickets that are held; absent: all. Then they wait again. */
  async giveBack(ids?: readonly string[]): Promise<void> {
    const meant = ids && new Set(ids)
    await this.#giveBack(this.#hold.take(({ id }) => meant?.has(id) ?? true))
  }

  /** Gives back all that are held, and removes the rows of those that have started. */
  async end(): Promise<void> {
    await this.giveBack()
    await Promise.all(this.#beginning)
    await this.settled()
    await this.remove()
  }

  /** The rows of earlier starts are gone, or stay for now. */
  async settled(): Promise<void> {
    await this.#removing
  }

  /** Removes the rows of tickets that have started without a permit. */
  async remove(): Promise<void> {
    if (this.#started.length === 0) return
    const started = this.#started.splice(0)
    try {
      const seqs = started.map(({ seq }) => seq)
      await this.#options.store.budgets.remove(this.#worker, seqs)
    } catch (error) {
      this.#started.unshift(...started)
      throw error
    }
  }

  /** Begins a ticket. The row of the last one goes soon, those of others with the next claim. */
  #beginOne(job: GrantedJob): void {
    if (job.holds) {
      if (this.#due.push(job) > 1) return
      const begins = Promise.resolve().then(() => this.#beginDue())
      const ends = begins.finally(() => this.#beginning.delete(ends))
      this.#beginning.add(ends)
      return
    }
    this.#pending.delete(job.id)
    this.#started.push(job)
    this.#options.begin(job, { kind: 'granted', atUs: job.startedUs, permit: null })
    if (this.#pending.size === 0) this.#removeSoon()
  }

  /** Begins the tickets of one turn of the event loop that take permits. */
  async #beginDue(): Promise<boolean> {
    const { store, leaseUs, requestOf, begin, returned } = this.#options
    const jobs = this.#due.splice(0)
    const tickets = jobs.map(({ id, seq }) => {
      const request = requestOf(id)
      return { seq, permit: request?.permit ?? id, leaseUs: request?.leaseUs ?? leaseUs }
    })
    try {
      const begun = await store.budgets.begin(this.#worker, tickets)
      for (const [i, job] of jobs.entries()) {
        const places = begun.get(job.seq)
        if (!places) continue
        const of = places.flatMap((place) => job.uses[place] ?? []).map(({ limit, key }) => ({ limit, key }))
        const id = tickets[i]?.permit ?? job.id
        begin(job, { kind: 'granted', atUs: job.startedUs, permit: of.length === 0 ? null : { id, of } })
      }
      return true
    } catch {
      returned(true)
      return false
    } finally {
      for (const { id } of jobs) this.#pending.delete(id)
      if (this.#pending.size === 0) this.#removeSoon()
    }
  }

  #removeSoon(): void {
    if (this.#started.length === 0) return
    const before = this.#removing ?? Promise.resolve()
    this.#removing = this.remove().then(
      () => before,
      () => before,
    )
  }

  /** The last first: so each returns all of its units. */
  async #giveBack(jobs: readonly GrantedJob[]): Promise<void> {
    if (jobs.length === 0) return
    const { store, clock, leaseUs, returned } = this.#options
    const lastFirst = jobs.toSorted((a, b) => b.startedUs - a.startedUs || b.seq - a.seq)
    let failed = false
    try {
      await persist(clock, leaseUs / 1000, () => store.release(this.#worker, lastFirst))
    } catch {
      failed = true
    }
    for (const { id } of jobs) this.#pending.delete(id)
    returned(failed)
  }
}
