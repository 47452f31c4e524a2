import type { Clock, Timer } from '../../base/clock.ts'
import { createIds } from '../../base/ids.ts'
import { pauseAfter } from '../../base/persist.ts'
import type { GrantedJob, NewJob } from '../../jobs/job.ts'
import { inLaneOrder } from '../../jobs/lane.ts'
import type { BucketName, Denied, Granted, UnitRequest } from '../../limiter/contract/limiter.ts'
import { TICKET } from '../contract/budgets.ts'
import type { Claim, Store } from '../contract/store.ts'
import { Gathered } from '../../base/gathered.ts'
import { GrantedTickets } from './granted-tickets.ts'
import type { Membership } from './membership.ts'
import { lineOf, type Ticket, TicketLines } from './ticket-lines.ts'

/** The engine of a process, as calls of plain code need it: it keeps the store in order, and reports claims. */
export interface TicketEngine {
  /** Called with every claim, for its events. */
  claimed(claim: Claim): void
  /** A budget may have opened for its jobs. */
  changed(): void
}

/** The parts of the tickets of one process. */
export interface TicketsOptions {
  readonly store: Store
  readonly clock: Clock
  /** The queue that only this process serves. */
  readonly queue: string
  readonly leaseUs: number
  /** How far ahead the tickets are granted, in µs. */
  readonly aheadUs: number
  /** Makes this process a worker of that queue. */
  readonly membership: Pick<Membership, 'join' | 'watch'>
  /** Undefined: the process has none. */
  readonly engine: TicketEngine | undefined
  /** Takes back what a ticket got whose caller has stopped waiting. */
  readonly giveBack: (uses: UnitRequest['uses'], granted: Granted) => void
}

const FIRST_REST_MS = 100
/** A claim for a caller that leaves then comes so long before. */
const BEFORE_END_US = 5000
/** A ticket can start again so often, should its claim be lost. */
const STARTS_AT_MOST = 1000

/**
 * The callers of one process that wait in the wait lists of the store's buckets. Each is a job of a task that no one
 * lists, in a queue that only this process serves. A claim starts it, and its row goes with that.
 */
export class Tickets {
  readonly #options: TicketsOptions
  readonly #newId: () => string
  readonly #tickets = new Map<string, Ticket>()
  readonly #lines: TicketLines
  /** Those that the next claim stores. */
  readonly #later = new Set<Ticket>()
  /** How many of them wait for a permit. */
  #forPermits = 0
  /** Tickets that come while others are on their way share a transaction. */
  readonly #storing: Gathered<NewJob, unknown>
  /** Other processes have their turns until the next claim of these tickets. */
  #patient = false
  #claiming: Promise<void> | null = null
  #again = false
  /** Another commit came while a claim was on its way. */
  #news = false
  /** Changes of limits on their way: nothing is claimed meanwhile, nor does the store decide. */
  #changes = 0
  /** A claim may have taken tickets that this process does not start. */
  #inDoubt = false
  #wake: Timer | null = null
  /** When it wakes, on the steady clock. */
  #wakesUs = Infinity
  #rest: Timer | null = null
  #failures = 0
  #ended: Error | null = null
  #dropping: string[] = []
  #leaving: Promise<void> | null = null
  readonly #granted: GrantedTickets

  constructor(options: TicketsOptions) {
    this.#options = options
    this.#newId = createIds(options.clock)
    this.#lines = new TicketLines(options.clock)
    this.#storing = new Gathered((jobs) => options.store.enqueue(jobs))
    this.#granted = new GrantedTickets({
      ...options,
      requestOf: (id) => this.#tickets.get(id)?.request,
      begin: (job, granted) => this.#begin(job, granted),
      returned: (failed) => this.#returned(failed),
      claiming: () => this.#claiming,
    })
  }

  /** Waits until the store grants the request. The denial, if that takes longer than `waitUs`. */
  wait(request: UnitRequest, denied: Denied, waitUs: number, signal?: AbortSignal): Promise<Granted | Denied> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.#ended) throw this.#ended
      const { clock } = this.#options
      const end = (answer: Granted | Denied | Error): void => {
        this.#forget(ticket)
        patience?.cancel()
        signal?.removeEventListener('abort', abort)
        if (answer instanceof Error) reject(answer)
        else resolve(answer)
      }
      const leave = (answer: Denied | Error): void => {
        end(answer)
        if (ticket.stored === 'yes') this.#drop(ticket.id)
      }
      const abort = (): void => leave(signal?.reason as Error)
      const ticket: Ticket = {
        id: this.#newId(),
        request,
        denied,
        sinceUs: clock.monotonicUs(),
        line: lineOf(request),
        untilUs: clock.monotonicUs() + waitUs,
        stored: 'no',
        settle: end,
      }
      const patience =
        waitUs === Infinity
          ? null
          : clock.setTimer(() => leave(this.#lines.lateness(ticket)), Math.max(0, waitUs / 1000))
      signal?.addEventListener('abort', abort)
      const claimUs = this.#claimUs(ticket)
      this.#tickets.set(ticket.id, ticket)
      if (denied.retryAfterUs === null) this.#forPermits++
      this.#lines.add(ticket)
      if (claimUs === null) void this.#store(ticket)
      else this.#storeAt(ticket, claimUs)
    })
  }

  /** Runs a change of limits, before which the granted starts that use them go back. */
  async changing<T>(uses: (use: BucketName) => boolean, change: () => Promise<T>): Promise<T> {
    this.#changes++
    try {
      return await this.#granted.changing(uses, change)
    } finally {
      this.#changes--
      this.changed()
    }
  }

  /** A budget may have opened. @param elsewhere by a commit of any kind */
  changed(elsewhere = false): void {
    // Calls ask again: a bucket that this process has closed refuses them at once.
    if (!elsewhere) this.#lines.crowd = null
    if (elsewhere && this.#claiming) this.#news = true
    else if (this.#tickets.size > 0 && !(elsewhere && this.#patient)) this.#claimSoon()
  }

  /** The refusal of the calls of its line, if it stands for one that comes now: it must not overtake them. */
  denialOf(request: UnitRequest, waitUs: number): Denied | null {
    const line = lineOf(request)
    const crowd = this.#lines.crowdOf(line)
    if (crowd) return (crowd.denied.retryAfterUs ?? Infinity) <= waitUs ? crowd.denied : null
    return waitUs === Infinity ? (this.#lines.last(line)?.denied ?? null) : null
  }

  /** When the next claim stores a ticket that starts after those of its line, on the steady clock; null: it is stored now. */
  #claimUs({ line, untilUs }: Ticket): number | null {
    const endUs = untilUs - BEFORE_END_US
    if (this.#patient && (this.#lines.last(line) || this.#lines.crowdOf(line))) return Math.min(this.#wakesUs, endUs)
    const followsUs = this.#followsUs(line)
    return followsUs === null ? null : Math.min(followsUs, endUs)
  }

  /**
   * When the next claim for the last ticket of a line comes, on the steady clock. If that is granted, those behind it
   * are claimed together when half of the time until its start is over. Null: there is none, or it is not soon.
   */
  #followsUs(line: string): number | null {
    const { aheadUs, clock, store } = this.#options
    const last = this.#lines.last(line)
    if (!last || aheadUs === 0 || !this.#tickets.has(last.id)) return null
    const nowUs = clock.monotonicUs()
    const halfwayUs = this.#granted.halfwayUs(last.id)
    if (halfwayUs !== null) return nowUs + halfwayUs - store.nowUs()
    return this.#wake && this.#wakesUs <= nowUs + aheadUs ? this.#wakesUs : null
  }

  /**
   * Finds out which tickets another process has discarded, since their limit drops what cannot start in time, and which
   * went while this process was stopped. Answers whether any ticket waits.
   */
  async check(): Promise<boolean> {
    await this.#granted.settled()
    // Rows that could not be removed at their start.
    await this.#granted.remove()
    const stored = [...this.#tickets.values()].filter(({ stored: state }) => state === 'yes')
    if (stored.length === 0) return this.#tickets.size > 0
    const known = await this.#options.store.budgets.tickets(stored.map(({ id }) => id))
    for (const ticket of stored) {
      if (!this.#tickets.has(ticket.id) || this.#granted.has(ticket.id) || this.#claiming) continue
      const state = known.get(ticket.id)
      if (state === 'over') this.#reject(ticket.id)
      else if (state === undefined) void this.#store(ticket)
    }
    this.#claimSoon()
    return true
  }

  /** Takes all tickets out. Their callers get the error, and so do later ones. */
  async end(error: Error): Promise<void> {
    this.#ended = error
    for (const timer of [this.#wake, this.#rest]) timer?.cancel()
    const tickets = [...this.#tickets.values()]
    for (const ticket of tickets) ticket.settle(error)
    await this.#leaving
    await this.#claiming
    await this.#granted.end()
    const ids = [...this.#dropping.splice(0), ...tickets.flatMap(({ id, stored }) => (stored === 'yes' ? [id] : []))]
    if (ids.length > 0) await this.#options.store.budgets.drop(ids)
  }

  async #store(ticket: Ticket): Promise<void> {
    const { queue, membership } = this.#options
    const { uses, priority } = ticket.request
    const job: NewJob = {
      id: ticket.id,
      task: TICKET,
      queue,
      priority,
      input: 'null',
      uses: inLaneOrder([...uses]),
      maxAttempts: STARTS_AT_MOST,
      runAtMs: null,
      expiresAtMs: null,
      unique: null,
      extra: null,
    }
    ticket.stored = 'soon'
    this.#later.delete(ticket)
    try {
      await membership.join()
      if (!this.#tickets.has(ticket.id)) return
      await this.#storing.add([job])
      ticket.stored = 'yes'
      if (this.#tickets.has(ticket.id)) this.#claimSoon()
      else this.#drop(ticket.id)
    } catch (error) {
      ticket.settle(error instanceof Error ? error : new Error(String(error)))
    }
  }

  /** Until when the tickets leave the turn to others; null: they do not. @param before one that the claim served */
  #patience({ patientUntilUs }: Claim, before: Ticket | undefined): number | null {
    const [ticket = before] = this.#tickets.values()
    this.#lines.crowd = null
    if (this.#lines.size > 1 || !ticket || patientUntilUs === undefined) return null
    const { line, denied } = ticket
    this.#lines.crowds(line, denied)
    this.#patient = !this.#again
    return patientUntilUs
  }

  /** Leaves a ticket to the next claim, which comes then at the latest. */
  #storeAt(ticket: Ticket, claimUs: number): void {
    this.#later.add(ticket)
    if (!this.#wake || claimUs < this.#wakesUs) this.#wakeOn(claimUs)
  }

  async #storeRest(): Promise<void> {
    await Promise.all([...this.#later].map((ticket) => this.#store(ticket)))
  }

  #forget(ticket: Ticket): void {
    const { id, denied } = ticket
    if (!this.#tickets.delete(id)) return
    this.#later.delete(ticket)
    if (denied.retryAfterUs === null) this.#forPermits--
    this.#lines.remove(ticket)
  }

  /** Takes out the tickets of one turn of the event loop together. */
  #drop(id: string): void {
    this.#dropping.push(id)
    if (this.#dropping.length > 1) return
    queueMicrotask(() => {
      const ids = this.#dropping.splice(0)
      const drop = async (): Promise<void> => {
        await this.#granted.giveBack(ids)
        if (ids.length > 0) await this.#options.store.budgets.drop(ids)
      }
      // Those that stay go with the registration of this process.
      this.#leaving = drop().catch(() => undefined)
      this.#claimSoon()
    })
  }

  #claimSoon(): void {
    if (this.#ended || this.#rest || this.#changes > 0) return
    if (this.#claiming) this.#again = true
    else if (this.#tickets.size > 0)
      this.#claiming = this.#claim().finally(() => {
        this.#claiming = null
        if (this.#again || (this.#news && !this.#patient)) this.#claimSoon()
      })
  }

  async #claim(): Promise<void> {
    const { store, queue, leaseUs, engine, membership } = this.#options
    const granted = this.#granted
    this.#patient = false
    try {
      const worker = await membership.join()
      await granted.settled()
      const wasInDoubt = this.#inDoubt
      this.#inDoubt = false
      if (wasInDoubt) await store.releaseLost(worker, granted.runs())
      await this.#storeRest()
      const [before] = this.#lines.size === 1 ? this.#tickets.values() : []
      const claim = await store.claim(() => {
        this.#again = this.#news = false
        const slots = this.#ended ? 0 : Math.max(0, this.#tickets.size - granted.count)
        // A handful comes at the instant that its processes have agreed on.
        const ahead = this.#lines.crowd ? 0 : slots
        return { worker, leaseUs, ...granted.terms(), queues: [{ queue, slots, ahead }] }
      })
      if (await granted.add(worker, claim)) this.#failures = 0
      if (claim.wakesOthers) engine?.changed()
      engine?.claimed({ ...claim, jobs: [], rejected: claim.rejected.filter((each) => each.task !== TICKET) })
      for (const { id, task } of claim.rejected) if (task === TICKET) this.#reject(id)
      if (this.#forPermits > 0) membership.watch()
      this.#wakeAt(this.#patience(claim, before) ?? claim.nextWakeUs)
    } catch {
      this.#returned(true)
    }
  }

  #begin(job: GrantedJob, start: Granted): void {
    const granted = this.#tickets.get(job.id)
    if (!granted) return this.#options.giveBack(job.uses, start)
    const oldest = this.#lines.oldest(granted)
    this.#tickets.set(granted.id, granted).set(oldest.id, oldest)
    oldest.settle(start)
  }

  #returned(failed: boolean): void {
    this.#inDoubt ||= failed
    if (failed) this.#restAWhile()
    else this.#claimSoon()
  }

  #reject(id: string): void {
    const ticket = this.#tickets.get(id)
    ticket?.settle(this.#lines.lateness(ticket))
    this.#drop(id)
  }

  /** @param atUs on the store's clock */
  #wakeAt(atUs: number | null): void {
    this.#wake?.cancel()
    this.#wake = null
    if (this.#ended || (this.#tickets.size === 0 && !this.#patient)) return
    const { clock, store } = this.#options
    const nowUs = clock.monotonicUs()
    let wakesUs = atUs === null ? Infinity : nowUs + atUs - store.nowUs()
    if (this.#patient)
      for (const { untilUs } of this.#tickets.values())
        // The claim of a caller that leaves sooner was this one.
        if (untilUs - BEFORE_END_US > nowUs) wakesUs = Math.min(wakesUs, untilUs - BEFORE_END_US)
    // Those that came during the claim.
    for (const { line } of this.#later) if (!this.#patient) wakesUs = Math.min(wakesUs, this.#followsUs(line) ?? nowUs)
    // The next ticket comes then.
    if (this.#tickets.size === 0) this.#wakesUs = wakesUs
    else if (wakesUs < Infinity) this.#wakeOn(wakesUs)
  }

  /** @param atUs on the steady clock */
  #wakeOn(atUs: number): void {
    const { clock } = this.#options
    this.#wake?.cancel()
    this.#wakesUs = atUs
    const delayMs = Math.max(0, (atUs - clock.monotonicUs()) / 1000)
    const run = (): void => {
      this.#wake = null
      this.#patient &&= this.#tickets.size > 0
      this.#claimSoon()
    }
    this.#wake = clock.setFineTimer?.(run, delayMs) ?? clock.setTimer(run, delayMs)
  }

  #restAWhile(): void {
    if (this.#ended) return
    this.#rest?.cancel()
    this.#rest = this.#options.clock.setTimer(
      () => {
        this.#rest = null
        this.#claimSoon()
      },
      pauseAfter(++this.#failures, FIRST_REST_MS),
    )
  }
}
