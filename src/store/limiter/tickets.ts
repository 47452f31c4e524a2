import type { Clock, Timer } from '../../base/clock.ts'
import { createIds } from '../../base/ids.ts'
import { pauseAfter } from '../../base/persist.ts'
import type { GrantedJob, NewJob } from '../../jobs/job.ts'
import { inLaneOrder } from '../../jobs/lane.ts'
import type { Denied, Granted, UnitRequest } from '../../limiter/contract/limiter.ts'
import { TICKET } from '../contract/budgets.ts'
import type { Claim, Store } from '../contract/store.ts'
import { Gathered } from './gathered.ts'
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
  readonly membership: Pick<Membership, 'join' | 'watch'>
  /** Undefined: the process has none. */
  readonly engine: TicketEngine | undefined
  /** Takes back what a ticket got whose caller has stopped waiting. */
  readonly giveBack: (uses: UnitRequest['uses'], granted: Granted) => void
}

/** A line for whose budget other processes wait too. */
interface Crowd {
  readonly line: string
  readonly denied: Denied
  readonly untilUs: number
}

/** A caller that waits. */
interface Ticket {
  readonly id: string
  readonly request: UnitRequest
  /** The refusal that made it wait. */
  readonly denied: Denied
  readonly sinceUs: number
  /** The uses and the priority: tickets of one line start in their order. */
  readonly line: string
  /** When its caller leaves, on the steady clock. */
  readonly untilUs: number
  /** `later`: the next claim stores it. */
  stored: 'later' | 'soon' | 'yes'
  settle(end: Granted | Denied | Error): void
}

const FIRST_REST_MS = 100
/** That others wait for the same is taken for granted for so long. */
const CROWD_US = 500_000
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
  /** The tickets of each line. */
  readonly #lines = new Map<string, number>()
  /** How many of them wait for a permit. */
  #forPermits = 0
  /** Tickets that come while others are on their way share a transaction. */
  readonly #storing: Gathered<NewJob, unknown>
  /** Other processes have their turns until the next claim of these tickets. */
  #patient = false
  /** The only line, while it lasts that others wait for the same. */
  #crowd: Crowd | null = null
  #claiming = false
  #again = false
  /** Another commit came while a claim was on its way. */
  #news = false
  /** A claim may have taken tickets without an answer to this process. */
  #inDoubt = false
  #wake: Timer | null = null
  /** When it wakes, on the steady clock. */
  #wakesUs = Infinity
  #rest: Timer | null = null
  #failures = 0
  #ended: Error | null = null
  #dropping: string[] = []
  /** The numbers of tickets that have started, and whose rows go. */
  #started: number[] = []
  #removing: Promise<void> | null = null

  constructor(options: TicketsOptions) {
    this.#options = options
    this.#newId = createIds(options.clock)
    this.#storing = new Gathered((jobs) => options.store.enqueue(jobs))
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
        stored: 'later',
        settle: end,
      }
      const patience =
        waitUs === Infinity ? null : clock.setTimer(() => leave(this.#lateness(ticket)), Math.max(0, waitUs / 1000))
      signal?.addEventListener('abort', abort)
      const isBehind = this.#patient && (this.#lines.has(ticket.line) || this.#crowdOf(ticket.line) !== null)
      this.#tickets.set(ticket.id, ticket)
      if (denied.retryAfterUs === null) this.#forPermits++
      this.#lines.set(ticket.line, (this.#lines.get(ticket.line) ?? 0) + 1)
      // It starts after those of its line, whose next claim stores it.
      if (!isBehind) void this.#store(ticket)
      else if (!this.#wake || ticket.untilUs - BEFORE_END_US < this.#wakesUs)
        this.#wakeOn(Math.min(this.#wakesUs, ticket.untilUs - BEFORE_END_US))
    })
  }

  /** A budget may have opened. @param elsewhere by a commit of any kind */
  changed(elsewhere = false): void {
    // Calls ask again: a bucket that this process has closed refuses them at once.
    if (!elsewhere) this.#crowd = null
    if (elsewhere && this.#claiming) this.#news = true
    else if (this.#tickets.size > 0 && !(elsewhere && this.#patient)) this.#claimSoon()
  }

  /** The refusal of the calls that wait for the same, if it still stands and they are left to other processes' turns. */
  denialOf(request: UnitRequest, waitUs: number): Denied | null {
    const crowd = this.#crowd && this.#crowdOf(lineOf(request))
    if (!crowd) return null
    return (crowd.denied.retryAfterUs ?? Infinity) <= waitUs ? crowd.denied : null
  }

  /** The crowd of a line; null: it has none. */
  #crowdOf(line: string): Crowd | null {
    const crowd = this.#crowd
    return crowd?.line === line && this.#options.clock.monotonicUs() <= crowd.untilUs ? crowd : null
  }

  /**
   * Finds out which tickets another process has discarded, since their limit drops what cannot start in time, and which
   * went while this process was stopped. Answers whether any ticket waits.
   */
  async check(): Promise<boolean> {
    await this.#removing
    // Rows that could not be removed at their start.
    if (this.#started.length > 0) await this.#remove(await this.#options.membership.join())
    const stored = [...this.#tickets.values()].filter(({ stored: state }) => state === 'yes')
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
    await this.#removing
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
    this.#crowd = null
    if (this.#lines.size > 1 || !ticket || patientUntilUs === undefined) return null
    const { line, denied } = ticket
    this.#crowd = { line, denied, untilUs: this.#options.clock.monotonicUs() + CROWD_US }
    this.#patient = !this.#again
    return patientUntilUs
  }

  /** Stores the tickets that were left to the next claim. */
  async #storeRest(): Promise<void> {
    const rest = [...this.#tickets.values()].filter(({ stored }) => stored === 'later')
    await Promise.all(rest.map((ticket) => this.#store(ticket)))
  }

  #forget({ id, line, denied }: Ticket): void {
    if (!this.#tickets.delete(id)) return
    if (denied.retryAfterUs === null) this.#forPermits--
    const left = (this.#lines.get(line) ?? 0) - 1
    if (left > 0) this.#lines.set(line, left)
    else this.#lines.delete(line)
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
    this.#patient = false
    try {
      const worker = await membership.join()
      await this.#removing
      if (this.#inDoubt) await this.#remove(worker)
      if (this.#inDoubt) await store.releaseLost(worker, [])
      await this.#storeRest()
      this.#inDoubt = true
      const [before] = this.#lines.size === 1 ? this.#tickets.values() : []
      const claim = await store.claim(() => {
        this.#again = this.#news = false
        return { worker, leaseUs, queues: [{ queue, slots: this.#ended ? 0 : this.#tickets.size }] }
      })
      await this.#begin(worker, claim.jobs)
      this.#removing = this.#remove(worker).catch(() => undefined)
      this.#inDoubt = false
      this.#failures = 0
      if (claim.wakesOthers) engine?.changed()
      engine?.claimed({ ...claim, jobs: [], rejected: claim.rejected.filter((each) => each.task !== TICKET) })
      for (const { id, task } of claim.rejected) if (task === TICKET) this.#reject(id)
      if (this.#forPermits > 0) membership.watch()
      this.#wakeAt(this.#patience(claim, before) ?? claim.nextWakeUs)
    } catch {
      this.#restAWhile()
    } finally {
      this.#claiming = false
      if (this.#again || (this.#news && !this.#patient)) this.#claimSoon()
    }
  }

  async #begin(worker: number, jobs: readonly GrantedJob[]): Promise<void> {
    const { store, giveBack } = this.#options
    const starts = jobs.map((job) => {
      const { request } = this.#tickets.get(job.id) ?? {}
      return { seq: job.seq, permit: request?.permit ?? job.id, leaseUs: request?.leaseUs ?? this.#options.leaseUs }
    })
    const holding = starts.filter((_, i) => jobs[i]?.holds)
    const begun = holding.length > 0 ? await store.budgets.begin(worker, holding) : null
    for (const [i, job] of jobs.entries()) {
      const places = job.holds ? begun?.get(job.seq) : []
      if (!places) continue
      if (!job.holds) this.#started.push(job.seq)
      const of = places.flatMap((place) => job.uses[place] ?? []).map(({ limit, key }) => ({ limit, key }))
      const permit = of.length === 0 ? null : { id: starts[i]?.permit ?? job.id, of }
      const granted: Granted = { kind: 'granted', atUs: job.startedUs, permit }
      const ticket = this.#tickets.get(job.id)
      if (ticket) ticket.settle(granted)
      else giveBack(job.uses, granted)
    }
  }

  /** Removes the rows of tickets that have started without a permit. */
  async #remove(worker: number): Promise<void> {
    if (this.#started.length === 0) return
    const started = this.#started.splice(0)
    try {
      await this.#options.store.budgets.remove(worker, started)
    } catch (error) {
      this.#started.unshift(...started)
      throw error
    }
  }

  #reject(id: string): void {
    const ticket = this.#tickets.get(id)
    ticket?.settle(this.#lateness(ticket))
    this.#drop(id)
  }

  /** @param atUs on the store's clock */
  #wakeAt(atUs: number | null): void {
    this.#wake?.cancel()
    this.#wake = null
    if (atUs === null || this.#ended || (this.#tickets.size === 0 && !this.#patient)) return
    const { clock, store } = this.#options
    const nowUs = clock.monotonicUs()
    let wakesUs = nowUs + atUs - store.nowUs()
    if (this.#patient)
      for (const { untilUs } of this.#tickets.values())
        // The claim of a caller that leaves sooner was this one.
        if (untilUs - BEFORE_END_US > nowUs) wakesUs = Math.min(wakesUs, untilUs - BEFORE_END_US)
    // The next ticket comes then.
    if (this.#tickets.size === 0) this.#wakesUs = wakesUs
    else this.#wakeOn(wakesUs)
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
    this.#rest = this.#options.clock.setTimer(
      () => {
        this.#rest = null
        this.#claimSoon()
      },
      pauseAfter(++this.#failures, FIRST_REST_MS),
    )
  }
}

/** Tickets of one line have the same lane, and cost the same. */
function lineOf({ uses, priority }: UnitRequest): string {
  return JSON.stringify([priority, uses.map(({ limit, key, weight }) => [limit, key, weight])])
}
