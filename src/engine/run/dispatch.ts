import type { Timer } from '../../base/clock.ts'
import { isFinal } from '../../base/errors.ts'
import { type BucketName, Hold, type Starter } from '../../jobs/hold.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { Logger } from '../../base/logger.ts'
import { pauseAfter, persist } from '../../base/persist.ts'
import type { CancelledRun } from '../../store/contract/recall.ts'
import type { Claim, ClaimRequest } from '../../store/contract/store.ts'
import type { Figures } from '../events/figures.ts'
import type { WakeupReason } from '../events/wakeup.ts'
import { attempt, type AttemptContext } from './attempt.ts'
import type { Loan } from './loan.ts'
import type { Slots } from './settle.ts'
import { AskedRoom, type ServedQueue, SlotCounts } from './slots.ts'

/** The options of a dispatcher, and the parts that its attempts share. */
export interface DispatcherOptions extends Omit<AttemptContext, 'slots'> {
  readonly logger: Logger
  readonly figures: Figures
  readonly eventWindowUs: number
  /** How far ahead it asks for starts, in µs. */
  readonly aheadUs: number
  readonly queues: readonly ServedQueue[]
}

/** Held starts that begin while a claim asks for more. */
const LEFT_AHEAD = 16
const FIRST_REST_MS = 250
const AFTER_START_MS = 20
/** Without a free slot, wakeups are answered together after this time. */
const FULL_DELAY_MS = 1000
const A_CLAIM = 'a claim'
const A_CHECK = 'the return of jobs from lost claims'
/** A claim that takes longer is logged. */
const LONG_CLAIM_MS = 5000

/**
 * Decides when to claim: at a wakeup (an arrival, a settled job, another process), at the instant that the last claim
 * named, or at the fallback poll. With no free slot it claims only for a finished job, or for work that comes due by
 * itself: a schedule, a delayed job, the end of a wait. After a failed claim it rests and ignores wakeups, to spare a
 * store in trouble.
 */
export class Dispatcher implements Slots {
  readonly #options: DispatcherOptions
  readonly #attempts: AttemptContext
  /** It takes no job of a task that is not listed here. */
  readonly #tasks: readonly string[]
  readonly #slots: SlotCounts
  #claiming: Promise<void> | null = null
  /** True from the request of the running claim, which counts the free slots, to its answer. */
  #isAsking = false
  /** True while `#claiming` gives back the jobs of a lost claim, and claims nothing. */
  #isChecking = false
  /** The start of the running claim, on the steady clock; null: none runs, or it was logged as a long one. */
  #claimingSinceUs: number | null = null
  readonly #asked = new AskedRoom()
  /** The request for another claim while one runs. */
  #again: 'fill' | 'due' | null = null
  /** A claim may have taken jobs without an answer to this process. */
  #inDoubt = false
  #wake: Timer | null = null
  /** A claim is due, and comes after the next start. */
  #afterStart = false
  /** Set after a wakeup of a process without a free slot. */
  #full: Timer | null = null
  /** Set while it rests after failed claims. */
  #rest: Timer | null = null
  #failures = 0
  #stopped = false
  #unsubscribe: (() => void) | null = null
  readonly #hold: Hold

  constructor(options: DispatcherOptions) {
    this.#options = options
    this.#attempts = { ...options, slots: this }
    const starter: Starter = {
      begin: (job) => this.#start(job),
      giveBack: (jobs) => this.#giveBack(jobs),
      claiming: () => this.#claiming,
    }
    this.#hold = new Hold({ ...options, starter })
    this.#tasks = [...options.tasks.keys()]
    this.#slots = new SlotCounts(options.queues)
  }

  /** Begins to claim. */
  start(): void {
    this.#unsubscribe = this.#options.wakeup.subscribe((reason) => this.#heed(reason))
    this.#fill()
  }

  #heed(reason: WakeupReason): void {
    if (reason === 'work') this.#fill()
    // Otherwise the commit's own wakeup makes it claim.
    else if (reason === 'storing' && !this.#claiming && !this.#inDoubt && this.#slots.hasRoom) this.#fill()
    else if (reason === 'schedule') this.#claimDue()
    // A process that serves no queue has no use for permits.
    else if ((reason === 'permits' || reason === 'paid') && this.#options.queues.length > 0) this.#fill()
    // With a free slot, the job's own wakeup makes the dispatcher learn the due time.
    else if (reason === 'delayed' && !this.#slots.hasRoom) this.#claimDue()
  }

  /** A job may start that could not before: claims if a slot is free. */
  #fill(): void {
    if (this.#stopped || this.#rest) return
    if (!this.#slots.hasRoom) this.#claimDueSoon()
    // A second claim beside the first would count the same slots.
    else if (this.#claiming) this.#again ??= 'fill'
    else this.#claim()
  }

  /** Work may be due by itself: claims with or without a free slot. */
  #claimDue(): void {
    if (this.#stopped || this.#rest) return
    if (this.#claiming) this.#again = 'due'
    else this.#claim()
  }

  /** Claims after the next start, within `AFTER_START_MS`, if the claim would keep that from beginning. */
  #claimBetweenStarts(): void {
    if (!this.#hold.beginsSoon) return this.#claimDue()
    this.#afterStart = true
    this.#wake = this.#options.clock.setTimer(() => this.#claimDue(), AFTER_START_MS)
  }

  /** The fallback poll: claims for changes that no wakeup reported. */
  poll(): void {
    if (this.#claiming) this.#reportIfLong()
    // A heartbeat at the time of the poll is not a claim, and must not replace one.
    if (this.#isChecking) this.#again = 'due'
    else if (!this.#claiming && !this.#rest && !this.#stopped) this.#claim()
  }

  /** Keeps the slot of a job that has ended and could not be settled, until it is settled. */
  hold(queue: string): void {
    this.#slots.retaken(queue)
  }

  /** New work may come due by itself. With no free slot the check is delayed. */
  #claimDueSoon(): void {
    this.#full ??= this.#options.clock.setTimer(() => {
      this.#full = null
      if (!this.#slots.hasRoom) this.#claimDue()
    }, FULL_DELAY_MS)
    this.#full.unref?.()
  }

  /** Frees the slot of a job that has ended. */
  finished(queue: string, mayStartOthers = true): void {
    const free = this.#slots.free(queue)
    this.#slots.ended(queue)
    this.#roomAgain(queue, free)
    if (mayStartOthers && !this.#options.store.notifiesOwnWrites) this.#fill()
  }

  /** The end of a run was written. Its slot may have been taken until now. */
  written(queue: string): void {
    const free = this.#slots.free(queue)
    this.#slots.written(queue)
    if (this.#slots.free(queue) > free) this.#roomAgain(queue, free)
  }

  /** A queue has a free slot more. @param before those that it had: with one, the last claim found no job for it */
  #roomAgain(queue: string, before: number): void {
    // The claim under way tells whether it would have filled this slot, too.
    if (this.#isAsking) this.#asked.roomier(queue)
    else if (before === 0) this.#fill()
  }

  /** Stops claiming. Gives back, with their units, the jobs of a running claim and those that have not begun. */
  async stop(): Promise<void> {
    this.#end()
    await this.#claiming
    await this.#giveBack(this.#hold.take(() => true))
    if (this.#inDoubt) await this.#check()
  }

  /**
   * Gives back the jobs of claims with a lost answer. It runs before any claim that follows a failed one, and at each
   * heartbeat: the server may write a claim after it has failed here.
   */
  check(): void {
    if (this.#stopped) return
    this.#inDoubt = true
    if (this.#claiming) return
    this.#isChecking = true
    this.#begin(this.#check().finally(() => (this.#isChecking = false)))
  }

  #end(): void {
    this.#stopped = true
    this.#unsubscribe?.()
    for (const timer of [this.#wake, this.#full, this.#rest]) timer?.cancel()
  }

  #claim(): void {
    this.#afterStart = false
    this.#begin(this.#claimOnce())
  }

  /** One at a time: while a claim runs, its jobs cannot be told from lost ones. */
  #begin(work: Promise<void>): void {
    this.#claimingSinceUs = this.#options.clock.monotonicUs()
    this.#claiming = work.finally(() => {
      this.#reportIfLong()
      this.#claiming = null
      this.#claimingSinceUs = null
      if (this.#again === 'due') this.#claimDue()
      else if (this.#again === 'fill') this.#fill()
    })
  }

  async #claimOnce(): Promise<void> {
    const { clock, figures, store, trouble, reporter, held, wakeup } = this.#options
    const loan = this.#options.budgets?.lend()
    let claim: Claim
    let beganUs = clock.monotonicUs()
    try {
      if (this.#inDoubt) await this.#releaseLost()
      beganUs = clock.monotonicUs()
      this.#isAsking = true
      claim = await store.claim(() => this.#request(loan))
      figures.claim(false, beganUs, clock.monotonicUs())
      trouble.over(A_CLAIM)
      this.#failures = 0
    } catch (error) {
      this.#inDoubt = true
      loan?.lose()
      figures.claim(true, beganUs, clock.monotonicUs())
      trouble.failed(A_CLAIM, error)
      return isFinal(error) ? this.#end() : this.#restAWhile()
    } finally {
      this.#isAsking = false
    }
    for (const job of claim.jobs) {
      this.#slots.claimed(job.queue)
      this.#asked.took(job.queue, job.startedUs > claim.nowUs)
      held.add(job)
    }
    if (this.#asked.leftJobs) this.#again ??= 'fill'
    loan?.settle(claim)
    if (this.#stopped) return this.#giveBack(claim.jobs)
    reporter.claimed(claim)
    if (claim.wakesOthers) wakeup.notify('others')
    void this.#giveBack(this.#hold.recall(claim))
    this.#hold.add(claim.jobs, claim.nowUs)
    for (const { queue } of this.#options.queues) this.#refill(queue)
    this.#wakeAt(this.#slots.hasRoom ? claim.nextWakeUs : claim.nextFireUs)
  }

  #start(job: GrantedJob): void {
    void attempt(this.#attempts, job)
    if (this.#afterStart) this.#claimDue()
    this.#refill(job.queue)
  }

  /** Claims if the last claim may have left starts of a queue for want of room ahead, and there is enough of it now. */
  #refill(queue: string): void {
    if (!this.#asked.leftStarts(queue) || this.#aheadOf(queue) < refillAt(this.#mostAhead(queue))) return
    this.#asked.follow(queue)
    this.#fill()
  }

  /** Runs a change of limits, before which the held starts that use them go back. */
  async changing<T>(uses: (use: BucketName) => boolean, change: () => Promise<T>): Promise<T> {
    try {
      return await this.#hold.changing(uses, change)
    } finally {
      this.#fill()
    }
  }

  /** Takes out the held starts of a bucket that is about to close. The answer gives them back. */
  recall(limit: string, key: string): () => void {
    const jobs = this.#hold.take((job) => job.uses.some((use) => use.limit === limit && use.key === key))
    return () => void this.#giveBack(jobs)
  }

  /** Whether a start is held. */
  get holds(): boolean {
    return !this.#hold.isEmpty
  }

  /** Gives back the held starts that a caller has cancelled, and with that ends them. */
  cancelHeld(which: (job: GrantedJob) => boolean): Promise<void> {
    return this.#giveBack(this.#hold.take(which))
  }

  /** Gives back claimed jobs that have not begun, the last first: so each returns all of its units. */
  async #giveBack(jobs: readonly GrantedJob[]): Promise<void> {
    if (jobs.length === 0) return
    const { clock, held, leaseUs, reporter, store, trouble, worker } = this.#options
    let cancelled: readonly CancelledRun[] = []
    const lastFirst = jobs.toSorted((a, b) => b.startedUs - a.startedUs || b.seq - a.seq)
    try {
      cancelled = await persist(clock, leaseUs / 1000, () => store.release(worker, lastFirst))
    } catch (error) {
      trouble.report('warn', error, {}, 'claimed jobs could not be given back; their leases will end')
    }
    for (const job of jobs) {
      this.#slots.givenBack(job.queue)
      held.remove(job)
      this.#options.budgets?.giveBack(job)
      const end = cancelled.find(({ seq }) => seq === job.seq)
      if (end) reporter.cancelled(job, end.flow)
    }
    this.#fill()
  }

  async #check(): Promise<void> {
    try {
      await this.#releaseLost()
      this.#options.trouble.over(A_CHECK)
    } catch (error) {
      this.#options.trouble.failed(A_CHECK, error)
    }
  }

  async #releaseLost(): Promise<void> {
    const { store, worker, held, logger } = this.#options
    this.#inDoubt = false
    let jobs = 0
    try {
      jobs = await store.releaseLost(worker, held.all)
    } catch (error) {
      this.#inDoubt = true
      throw error
    }
    if (jobs === 0) return
    logger.warn({ jobs }, 'jobs of a claim with a lost answer were given back; they never started')
    if (!this.#stopped) this.#again ??= 'fill'
  }

  /** Read when the claim's transaction runs, so it covers the slots and wakeups until then. */
  #request(loan: Loan | undefined): ClaimRequest {
    this.#again = null
    this.#asked.begin()
    const { worker, leaseUs, eventWindowUs, queues } = this.#options
    return {
      worker,
      leaseUs,
      eventWindowUs,
      ...this.#hold.terms(),
      // A claim that can start nothing must not borrow paid starts: a remote worker may wait for them.
      ...(loan && queues.length > 0 && this.#slots.hasRoom && { elsewhere: loan.terms() }),
      tasks: this.#tasks,
      queues: queues.map(({ queue }) =>
        this.#asked.ask(queue, this.#stopped ? 0 : this.#slots.free(queue), this.#aheadOf(queue)),
      ),
    }
  }

  /** How many more starts of a queue may be held: at most half of its slots, so that other work finds some. */
  #aheadOf(queue: string): number {
    return Math.max(0, this.#mostAhead(queue) - this.#hold.count(queue))
  }

  #mostAhead(queue: string): number {
    const concurrency = this.#options.queues.find((each) => each.queue === queue)?.concurrency ?? 0
    return Math.floor(concurrency / 2)
  }

  #restAWhile(): void {
    if (this.#stopped) return
    const { clock } = this.#options
    this.#wake?.cancel()
    this.#rest = clock.setTimer(
      () => {
        this.#rest = null
        this.#claimDue()
      },
      pauseAfter(++this.#failures, FIRST_REST_MS),
    )
  }

  #wakeAt(us: number | null): void {
    const { clock, store } = this.#options
    this.#wake?.cancel()
    if (us === null || this.#stopped) return
    this.#wake = clock.setTimer(() => this.#claimBetweenStarts(), Math.max(0, (us - store.nowUs()) / 1000))
  }

  /** Once for each claim, at its end or at a poll meanwhile, so that a claim needs no timer of its own. */
  #reportIfLong(): void {
    const { clock, logger } = this.#options
    const ms = this.#claimingSinceUs === null ? 0 : (clock.monotonicUs() - this.#claimingSinceUs) / 1000
    if (ms <= LONG_CLAIM_MS) return
    this.#claimingSinceUs = null
    logger.warn({ ms }, `a claim takes ${Math.round(ms)} ms: the store is slow, or does not answer`)
  }
}

/**
 * The room for held starts at which a claim asks for more: half of it, so that one claim answers for many starts, but
 * never so much that fewer than `LEFT_AHEAD` are left to begin until it answers.
 */
function refillAt(most: number): number {
  return Math.max(1, Math.min(Math.ceil(most / 2), most - LEFT_AHEAD))
}
