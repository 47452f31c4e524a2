import type { Clock, Timer } from '../base/clock.ts'
import type { GrantedJob } from './job.ts'
import { LateStarts } from './late-starts.ts'

/** A bucket, by its limit and its key. */
export interface BucketName {
  readonly limit: string
  readonly key: string
}

/** Runs a change of limits. Before it, the held starts whose charges match go back. */
export type Changing = <T>(uses: (use: BucketName) => boolean, change: () => Promise<T>) => Promise<T>

/** Who begins the starts that were held. */
export interface Starter {
  /** Begins a run. */
  begin(job: GrantedJob): void
  /** Gives back starts, in one call the last first. */
  giveBack(jobs: readonly GrantedJob[]): Promise<void>
  /** The claim on its way; null: there is none. */
  claiming(): Promise<void> | null
  /** Starts that have begun, and of which their callers do not know so far. Absent: there are none. */
  beginning?(): Promise<unknown>
}

/** When a start may begin for which a backend was paid, on the steady clock. */
export interface PaidStart {
  readonly fromUs: number
  /** Later its units no longer count where they were paid. */
  readonly lateUs: number
}

/** The parts of a claim's answer by which starts of earlier claims go back. */
export interface RecallNews {
  /** Grows with every change of a limit. */
  readonly generation?: number
  /** Buckets under a penalty, of those that the claim read for its decision or as `holds`. */
  readonly closedNow?: readonly BucketName[]
  /** Queues of the request that are paused. */
  readonly pausedQueues?: readonly string[]
}

/** The parts of a hold. */
export interface HoldOptions {
  readonly clock: Clock
  /** The store's clock, and whether its claims keep starts from beginning. */
  readonly store: { nowUs(): number; readonly claimsInThread?: boolean }
  /**
   * How far ahead starts are granted, in µs; after a long claim twice its time, at most four times as far. One that
   * begins later than that here is given back.
   */
  readonly aheadUs: number
  /** The payments of jobs at backends; null: there is no backend. */
  readonly budgets: { startOf(job: GrantedJob): PaidStart | null } | null
  readonly starter: Starter
}

/** The last starts of one strict bucket. */
interface Pace {
  /** The instant of the last start begun, and when it began on the steady clock. */
  atUs: number
  begunUs: number
  /** How far apart its bucket kept starts then. */
  gapUs: number
  /** The latest instant that was granted. */
  grantedUs: number
}

interface Held {
  readonly job: GrantedJob
  /** Granted ahead of its claim, and kept by no late start of its windows since. */
  ahead: boolean
  /** The steady clock at its instant, at the earliest. */
  readonly soonestUs: number
  /** Since when it could begin, by the store's clock: its instant, or the arrival of the claim's answer. */
  readonly sinceUs: number
  /** When that is on the steady clock, as far as its arrival could tell. */
  readonly dueUs: number
  /** How much later than that it may begin. */
  readonly lateUs: number
  /** The starts around it are so close that whole milliseconds would delay them. */
  readonly fine: boolean
  /** When its payment at a backend lets it begin; null: at any time. */
  readonly paid: PaidStart | null
}

/**
 * The part of the distance between two starts of a strict bucket that always remains, if the first is late. The rest
 * lets a process make up for a stall, at a tenth more than the rate.
 */
const KEPT = 0.9
/** Starts that are closer than this wait by the fine timer, µs. */
const CLOSE_US = 5000
/** A tenth of a shorter distance, µs, is less than whole milliseconds cost: a late start would make all others late. */
const RECOVERS_US = 20_000
/** A claim that takes long looks further ahead: as far as so many claims of its length take. */
const CLAIMS_AHEAD = 2
/** Never further than so many times as far as it was told to, and not beyond a second, µs. */
const FURTHER_AT_MOST = 4
const FURTHEST_US = 1_000_000
/** After starts that came too late, the bound grows back by this much with each claim. */
const FURTHER_AGAIN = 1 / 512
/** A start that is not due so long after its arrival foretold it waits for a clock that was set back. */
const SET_BACK_US = 20_000
/** The most strict buckets whose last start is remembered; the oldest go first. */
const PACES_AT_MOST = 10_000

/**
 * Holds starts until their instants. None begins before its own. Of one strict bucket, two keep nine tenths of the
 * distance between their instants, by the steady clock: a stall costs budget, and never brings starts together. After
 * late starts of a sliding window, the next ones wait until its period has room for them.
 */
export class Hold {
  readonly #options: HoldOptions
  /** By instant. */
  #held: Held[] = []
  readonly #paces = new Map<string, Pace>()
  readonly #counts = new Map<string, number>()
  #timer: Timer | null = null
  /** When that fires, on the steady clock. */
  #nextUs = Infinity
  /** The number of the last change of a limit that a claim has seen. */
  #generation: number | null = null
  /** Changes of limits in progress, during which nothing is granted ahead. */
  #changing = 0
  readonly #lateStarts = new LateStarts()
  /** The time of the last request for a claim, on the steady clock: no instant of it is sooner. Null: there was none. */
  #askedUs: number | null = null
  /** How long the last claim took, and how far the present one looks ahead, in µs. */
  #tookUs = 0
  #lookedUs: number
  /** How many times as far as it was told to a claim may look now. */
  #furtherAtMost = FURTHER_AT_MOST

  constructor(options: HoldOptions) {
    this.#options = options
    this.#lookedUs = options.aheadUs
  }

  /** The starts of a queue that are held. */
  count(queue: string): number {
    return this.#counts.get(queue) ?? 0
  }

  /** The part of a claim's request that concerns starts ahead. */
  terms(): { readonly aheadUs?: number; readonly holds?: readonly BucketName[] } {
    this.#askedUs = this.#options.clock.monotonicUs()
    const { aheadUs: leastUs } = this.#options
    const longUs = Math.min(CLAIMS_AHEAD * this.#tookUs, this.#furtherAtMost * leastUs, FURTHEST_US)
    this.#furtherAtMost = Math.min(FURTHER_AT_MOST, this.#furtherAtMost + FURTHER_AGAIN)
    const lookedUs = Math.max(leastUs, longUs)
    const aheadUs = this.#changing > 0 ? 0 : Math.round(lookedUs)
    this.#lookedUs = lookedUs
    return { ...(aheadUs > 0 && { aheadUs }), ...(!this.isEmpty && { holds: this.#buckets() }) }
  }

  /** Runs a change of limits. The held starts that use them go back first, so that the change holds for them too. */
  async changing<T>(uses: (use: BucketName) => boolean, change: () => Promise<T>): Promise<T> {
    const { starter } = this.#options
    const giveBack = (): Promise<void> => starter.giveBack(this.take((job) => job.uses.some(uses)))
    this.#changing++
    try {
      const first = giveBack()
      await starter.claiming()
      await first
      await giveBack()
      await starter.beginning?.()
      return await change()
    } finally {
      this.#changing--
    }
  }

  /**
   * Whether a start begins while a claim runs that keeps it from beginning, if it takes as long as the last one. A claim
   * that takes more than half of what it looks ahead must not wait for that: the starts that it grants would be late.
   */
  get beginsSoon(): boolean {
    const { aheadUs, clock, store } = this.#options
    if (!store.claimsInThread || 2 * this.#tookUs > aheadUs) return false
    return this.#nextUs < clock.monotonicUs() + this.#tookUs
  }

  get isEmpty(): boolean {
    return this.#held.length === 0
  }

  /** Begins the jobs of a claim that may start now, and holds the others. @param claimedUs the claim's clock */
  add(jobs: readonly GrantedJob[], claimedUs: number): void {
    const { budgets, clock, starter } = this.#options
    if (this.#askedUs !== null) this.#tookUs = clock.monotonicUs() - this.#askedUs
    const now: GrantedJob[] = []
    for (const job of jobs) {
      const paid = budgets?.startOf(job) ?? null
      if (job.startedUs > claimedUs || job.strict || paid) this.#insert(job, claimedUs, paid)
      else now.push(job)
    }
    if (now.length < jobs.length) this.#run()
    let waits = false
    for (const job of now)
      if (!job.windows) starter.begin(job)
      else if (this.#lateStarts.roomUs(job.windows, job.startedUs) > clock.monotonicUs()) {
        this.#insert(job, claimedUs, null)
        waits = true
      } else this.#begin(job, this.#soonestUs(job, claimedUs))
    if (waits) this.#arm()
  }

  /** Takes held starts out, to be given back. */
  take(which: (job: GrantedJob) => boolean): GrantedJob[] {
    const taken = this.#out(({ job }) => which(job))
    if (taken.length > 0) this.#arm()
    return taken
  }

  /** Takes out the starts whose limits another process has changed, closed or paused, as far as a claim tells. */
  recall({ generation, closedNow = [], pausedQueues = [] }: RecallNews): GrantedJob[] {
    const changed = this.#generation !== null && generation !== undefined && generation !== this.#generation
    this.#generation = generation ?? this.#generation
    if (!changed && closedNow.length + pausedQueues.length === 0) return []
    const closed = new Set(closedNow.map(({ limit, key }) => `${limit}\0${key}`))
    const isClosed = (job: GrantedJob): boolean => job.uses.some(({ limit, key }) => closed.has(`${limit}\0${key}`))
    return this.take((job) => changed || pausedQueues.includes(job.queue) || isClosed(job))
  }

  /** The buckets that the held starts have paid from. */
  #buckets(): BucketName[] {
    const names = new Map<string, BucketName>()
    for (const { job } of this.#held)
      for (const { limit, key } of job.uses) names.set(`${limit}\0${key}`, { limit, key })
    return [...names.values()]
  }

  #out(which: (held: Held) => boolean): GrantedJob[] {
    const taken = this.#held.filter(which)
    if (taken.length > 0) this.#held = this.#held.filter((held) => !which(held))
    for (const { job } of taken) this.#count(job, -1)
    return taken.map(({ job }) => job)
  }

  /** Whether a start waits for a time that has been. Such starts are the last of all. */
  #isSetBack(held: Held | undefined): boolean {
    const { clock, store } = this.#options
    if (!held || clock.monotonicUs() < held.dueUs + SET_BACK_US) return false
    return held.job.startedUs > store.nowUs()
  }

  #insert(job: GrantedJob, claimedUs: number, paid: PaidStart | null): void {
    const { clock, store } = this.#options
    const nowUs = store.nowUs()
    const sinceUs = Math.max(job.startedUs, nowUs)
    const dueUs = clock.monotonicUs() + sinceUs - nowUs
    const soonestUs = this.#soonestUs(job, claimedUs)
    const ahead = job.startedUs > claimedUs
    // The guard of a window covers no more lateness than what was said.
    const lateUs = job.strict && !job.windows ? this.#lookedUs : this.#options.aheadUs
    const held = { job, ahead, soonestUs, sinceUs, dueUs, lateUs, fine: this.#isClose(job), paid }
    const at = this.#held.findLastIndex(({ job }) => job.startedUs <= held.job.startedUs)
    this.#held.splice(at + 1, 0, held)
    this.#count(held.job, 1)
  }

  #count({ queue }: GrantedJob, by: 1 | -1): void {
    this.#counts.set(queue, this.count(queue) + by)
  }

  #isClose(job: GrantedJob): boolean {
    let isClose = false
    for (const { name } of strictOf(job)) {
      const pace = this.#paces.get(name)
      if (!pace) continue
      isClose ||= job.startedUs - pace.grantedUs < CLOSE_US
      pace.grantedUs = Math.max(pace.grantedUs, job.startedUs)
    }
    return isClose
  }

  /** Begins what is due, in order. */
  #run(): void {
    const { clock, starter, store } = this.#options
    const late = this.#isSetBack(this.#held.at(-1)) ? this.#out((held) => this.#isSetBack(held)) : []
    for (let i = 0; i < this.#held.length;) {
      const held = this.#held[i] as Held
      const { job, sinceUs, paid } = held
      const storeUs = store.nowUs()
      if (job.startedUs > storeUs) break
      const steadyUs = clock.monotonicUs()
      const beginsUs = this.#beginsUs(held)
      // A late answer does not count: the next one may be as late.
      const isLate = (held.ahead && storeUs - sinceUs > held.lateUs) || steadyUs > (paid?.lateUs ?? Infinity)
      if (!isLate && beginsUs > steadyUs) {
        i++
        continue
      }
      this.#held.splice(i, 1)
      this.#count(job, -1)
      if (isLate) late.push(job)
      else this.#begin(job, held.soonestUs)
    }
    if (late.length > 0) {
      // The further such claims look, the longer they keep starts from beginning.
      if (this.#options.store.claimsInThread) this.#furtherAtMost = 1
      void starter.giveBack(late)
    }
    this.#arm()
  }

  /** The instant of a start on the steady clock, at the soonest. */
  #soonestUs({ startedUs }: GrantedJob, claimedUs: number): number {
    return (this.#askedUs ?? this.#options.clock.monotonicUs()) + Math.max(0, startedUs - claimedUs)
  }

  #begin(job: GrantedJob, soonestUs: number): void {
    const { clock, starter } = this.#options
    const fromUs = clock.monotonicUs()
    starter.begin(job)
    // After its handler began: before, this process may have lost the processor for a while.
    const begunUs = clock.monotonicUs()
    this.#note(job, begunUs)
    if (job.windows) this.#lateStarts.note(job.windows, { atUs: job.startedUs, soonestUs, fromUs, begunUs })
  }

  /** When other starts and its payment let a held start begin, on the steady clock. */
  #beginsUs(held: Held): number {
    const { job, dueUs, paid } = held
    const roomUs = job.windows ? this.#lateStarts.roomUs(job.windows, job.startedUs) : -Infinity
    const us = Math.max(roomUs, this.#paceUs(job), paid?.fromUs ?? 0)
    // It waits for earlier starts, so it is not given back for being late.
    if (roomUs > dueUs) held.ahead = false
    if (job.windows && us > dueUs) this.#lateStarts.keeps(job.windows, us)
    return us
  }

  /** When the last starts of its strict buckets let a job begin, on the steady clock. */
  #paceUs(job: GrantedJob): number {
    let us = -Infinity
    for (const { name, gapUs } of strictOf(job)) {
      const pace = this.#paces.get(name)
      if (!pace) continue
      // Their instants may be further apart than their limit demands: then a late start need not delay the next.
      const apartUs = Math.min(Math.abs(job.startedUs - pace.atUs), Math.max(pace.gapUs, gapUs))
      us = Math.max(us, pace.begunUs + Math.ceil(KEPT * apartUs))
    }
    return us
  }

  #note(job: GrantedJob, begunUs: number): void {
    for (const { name, gapUs } of strictOf(job)) {
      const grantedUs = Math.max(this.#paces.get(name)?.grantedUs ?? 0, job.startedUs)
      this.#paces.delete(name)
      this.#paces.set(name, { atUs: job.startedUs, begunUs, gapUs, grantedUs })
    }
    for (const name of this.#paces.keys()) {
      if (this.#paces.size <= PACES_AT_MOST) break
      this.#paces.delete(name)
    }
  }

  #arm(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#nextUs = Infinity
    const { clock, store } = this.#options
    const storeUs = store.nowUs()
    const nowUs = clock.monotonicUs()
    let next: { readonly us: number; readonly fine: boolean } | null = null
    for (const held of this.#held) {
      const { job, fine } = held
      const leftUs = job.startedUs - storeUs
      // The starts behind it come later.
      if (next && leftUs >= next.us) break
      const us = Math.max(leftUs, this.#beginsUs(held) - nowUs, 0)
      const isKept = us > leftUs && us > 0
      if (!next || us < next.us) next = { us, fine: fine || (isKept && isTight(job)) }
    }
    const last = this.#held.at(-1)
    if (!next || !last) return
    const givenUpUs = Math.max(0, last.dueUs + SET_BACK_US - nowUs)
    if (last.job.startedUs > storeUs && givenUpUs < next.us) next = { us: givenUpUs, fine: false }
    this.#nextUs = nowUs + next.us
    const run = (): void => this.#run()
    this.#timer =
      next.fine && clock.setFineTimer ? clock.setFineTimer(run, next.us / 1000) : clock.setTimer(run, next.us / 1000)
  }
}

/** How far ahead a process asks for starts, in µs: as far as its store does, on a manual clock not at all. */
export function aheadOf(given: number | undefined, clock: Clock, store: { readonly aheadUs: number }): number {
  return given ?? (clock.attach ? 0 : store.aheadUs)
}

/** Whether whole milliseconds would use up the guard of a window, or what a late start may make up for. */
function isTight({ strict, windows }: GrantedJob): boolean {
  return Boolean(windows?.some(({ guardUs }) => guardUs < CLOSE_US) || strict?.some(({ gapUs }) => gapUs < RECOVERS_US))
}

function strictOf(job: GrantedJob): { readonly name: string; readonly gapUs: number }[] {
  return job.strict?.map(({ limit, key, gapUs }) => ({ name: `${limit}\0${key}`, gapUs })) ?? []
}
