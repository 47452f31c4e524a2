import type { Clock, Timer } from '../../base/clock.ts'
import { createIds } from '../../base/ids.ts'
import { pauseAfter } from '../../base/persist.ts'
import type { GrantedJob, NewJob } from '../../jobs/job.ts'
import { inLaneOrder } from '../../jobs/lane.ts'
import type { Denied, Granted, UnitRequest } from '../../limiter/contract/limiter.ts'
import { TICKET } from '../contract/budgets.ts'
import type { Claim, Store } from '../contract/store.ts'
import type { Membership } from './membership.ts'

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
  /** Makes this process a worker of that queue. */
  readonly membership: Pick<Membership, 'join'>
  /** Undefined: the process has none. */
  readonly engine: TicketEngine | undefined
  /** Takes back what a ticket got whose caller has stopped waiting. */
  readonly giveBack: (uses: UnitRequest['uses'], granted: Granted) => void
}

/** A caller that waits. */
interface Ticket {
  readonly id: string
  readonly request: UnitRequest
  /** The refusal that made it wait. */
  readonly denied: Denied
  readonly sinceUs: number
  /** The store has it. */
  isStored: boolean
  settle(end: Granted | Denied | Error): void
}

const FIRST_REST_MS = 100
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
  #claiming = false
  #again = false
  /** A claim may have taken tickets without an answer to this process. */
  #inDoubt = false
  #wake: Timer | null = null
  #rest: Timer | null = null
  #failures = 0
  #ended: Error | null = null
  #dropping: string[] = []

  constructor(options: TicketsOptions) {
    this.#options = options
    this.#newId = createIds(options.clock)
  }

  /** The number of callers that wait. */
  get size(): number {
    return this.#tickets.size
  }

  /** Waits until the store grants the request. The denial, if that takes longer than `waitUs`. */
  wait(request: UnitRequest, denied: Denied, waitUs: number, signal?: AbortSignal): Promise<Granted | Denied> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.#ended) throw this.#ended
      const { clock } = this.#options
      const end = (answer: Granted | Denied | Error): void => {
        this.#tickets.delete(ticket.id)
        patience?.cancel()
        signal?.removeEventListener('abort', abort)
        if (answer instanceof Error) reject(answer)
        else resolve(answer)
      }
      const leave = (answer: Denied | Error): void => {
        end(answer)
        if (ticket.isStored) this.#drop(ticket.id)
      }
      const abort = (): void => leave(signal?.reason as Error)
      const ticket: Ticket = {
        id: this.#newId(),
        request,
        denied,
        sinceUs: clock.monotonicUs(),
        isStored: false,
        settle: end,
      }
      const patience =
        waitUs === Infinity ? null : clock.setTimer(() => leave(this.#lateness(ticket)), Math.max(0, waitUs / 1000))
      signal?.addEventListener('abort', abort)
      this.#tickets.set(ticket.id, ticket)
      void this.#store(ticket)
    })
  }

  /** A budget may have opened. */
  changed(): void {
    if (this.#tickets.size > 0) this.#claimSoon()
  }

  /**
   * Finds out which tickets another process has discarded, since their limit drops what cannot start in time, and which
   * went while this process was stopped. Answers whether any ticket waits.
   */
  async check(): Promise<boolean> {
    const stored = [...this.#tickets.values()].filter(({ isStored }) => isStored)
    if (stored.length === 0) return this.#tickets.size > 0
    const known = await this.#options.store.budgets.tickets(stored.map(({ id }) => id))
    for (const ticket of stored) {
      if (!this.#tickets.has(ticket.id) || this.#claiming) continue
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
    const ids = [...this.#dropping.splice(0), ...tickets.flatMap(({ id, isStored }) => (isStored ? [id] : []))]
    if (ids.length > 0) await this.#options.store.budgets.drop(ids)
  }

  async #store(ticket: Ticket): Promise<void> {
    const { store, queue, membership } = this.#options
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
    ticket.isStored = false
    try {
      await membership.join()
      if (!this.#tickets.has(ticket.id)) return
      await store.enqueue([job])
      ticket.isStored = true
      if (this.#tickets.has(ticket.id)) this.#claimSoon()
      else this.#drop(ticket.id)
    } catch (error) {
      ticket.settle(error instanceof Error ? error : new Error(String(error)))
    }
  }

  /** The refusal of a ticket that has waited for too long. */
  #lateness({ denied, sinceUs }: Ticket): Denied {
    const leftUs = (denied.retryAfterUs ?? 0) - (this.#options.clock.monotonicUs() - sinceUs)
    return { ...denied, retryAfterUs: leftUs > 0 ? leftUs : null }
  }

  /** Takes out the tickets of one turn of the event loop together. */
  #drop(id: string): void {
    this.#dropping.push(id)
    if (this.#dropping.length > 1) return
    queueMicrotask(() => {
      const ids = this.#dropping.splice(0)
      // Those that stay go with the registration of this process.
      if (ids.length > 0) this.#options.store.budgets.drop(ids).catch(() => undefined)
      this.#claimSoon()
    })
  }

  #claimSoon(): void {
    if (this.#ended || this.#rest) return
    if (this.#claiming) this.#again = true
    else if (this.#tickets.size > 0) void this.#claim()
  }

  async #claim(): Promise<void> {
    const { store, queue, leaseUs, engine, membership } = this.#options
    this.#claiming = true
    try {
      const worker = await membership.join()
      if (this.#inDoubt) await store.releaseLost(worker, [])
      this.#inDoubt = true
      const claim = await store.claim(() => {
        this.#again = false
        return { worker, leaseUs, queues: [{ queue, slots: this.#ended ? 0 : this.#tickets.size }] }
      })
      await this.#begin(worker, claim.jobs)
      this.#inDoubt = false
      this.#failures = 0
      if (claim.wakesOthers) engine?.changed()
      engine?.claimed({ ...claim, jobs: [], rejected: claim.rejected.filter((each) => each.task !== TICKET) })
      for (const { id, task } of claim.rejected) if (task === TICKET) this.#reject(id)
      this.#wakeAt(claim.nextWakeUs)
    } catch {
      this.#restAWhile()
    } finally {
      this.#claiming = false
      if (this.#again) this.#claimSoon()
    }
  }

  async #begin(worker: number, jobs: readonly GrantedJob[]): Promise<void> {
    if (jobs.length === 0) return
    const { store, giveBack } = this.#options
    const starts = jobs.map((job) => {
      const { request } = this.#tickets.get(job.id) ?? {}
      return { seq: job.seq, permit: request?.permit ?? job.id, leaseUs: request?.leaseUs ?? this.#options.leaseUs }
    })
    const begun = await store.budgets.begin(worker, starts)
    for (const [i, job] of jobs.entries()) {
      const places = begun.get(job.seq)
      if (!places) continue
      const of = places.flatMap((place) => job.uses[place] ?? []).map(({ limit, key }) => ({ limit, key }))
      const permit = of.length === 0 ? null : { id: starts[i]?.permit ?? job.id, of }
      const granted: Granted = { kind: 'granted', atUs: job.startedUs, permit }
      const ticket = this.#tickets.get(job.id)
      if (ticket) ticket.settle(granted)
      else giveBack(job.uses, granted)
    }
  }

  #reject(id: string): void {
    const ticket = this.#tickets.get(id)
    ticket?.settle(this.#lateness(ticket))
    this.#drop(id)
  }

  #wakeAt(atUs: number | null): void {
    this.#wake?.cancel()
    this.#wake = null
    if (atUs === null || this.#ended || this.#tickets.size === 0) return
    const { clock, store } = this.#options
    const delayMs = Math.max(0, (atUs - store.nowUs()) / 1000)
    const run = (): void => this.#claimSoon()
    this.#wake = clock.setFineTimer?.(run, delayMs) ?? clock.setTimer(run, delayMs)
  }

  #restAWhile(): void {
    if (this.#ended) return
    this.#rest = this.#options.clock.setTimer(
      () => {
        this.#rest = null
        this.#claimSoon()
      },
      pauseAfter(++this.#failures, FIRST_REST_MS),
    )
  }
}
