import type { Clock, Timer } from '../../base/clock.ts'
import { watchLog } from '../../database/log-watch.ts'
import type { Context } from './context.ts'
import { hasCompany } from './workers.ts'

const IN_COMPANY_MS = 50
const ALONE_MS = 1000
/** A process that wrote without being registered as a worker counts as company for this time. */
const COMPANY_LASTS_MS = 60_000
/** The shortest interval between reads caused by writes to the log. */
const GAP_MS = 2
/** Further reads within an interval whose first read came before the commit: a commit writes to the log several times. */
const LOOKS_IN_GAP = 4
/** The longest such interval, while others' commits give this process nothing to do. */
const LONGEST_GAP_MS = 50

/**
 * Detects commits of other processes. A watch of the write-ahead log reports writes, and `PRAGMA data_version` shows
 * whether another process wrote. Where the watch proves nothing, timers read instead: every 50 ms in company, every
 * second alone. A store in memory has no other processes.
 */
export class OtherProcesses {
  readonly #context: Context
  readonly #clock: Clock
  readonly #own: ReadonlySet<number>
  readonly #listeners = new Set<(change: 'any' | 'cancelled', isOwn: boolean) => void>()
  #version = 0
  #companyUntilUs = 0
  #timer: Timer | null = null
  #stopWatching: (() => void) | null = null
  /** `yes`: the watch announced the last foreign commit, or has announced anything before the first one. */
  #trust: 'unproven' | 'yes' | 'no' = 'unproven'
  /** Whether the log was written since the last timed read. */
  #written = false
  /** Set between two reads that writes cause. */
  #gap: Timer | null = null
  #gapMs = GAP_MS
  #writtenInGap = false
  #looksLeft = 0
  /** This process's changes at the last call of its listeners. */
  #ownChanges = 0
  #calledUs = 0

  /** @param own the workers of this store: all other registered ones are company */
  constructor(context: Context, clock: Clock, own: ReadonlySet<number>) {
    this.#context = context
    this.#clock = clock
    this.#own = own
  }

  /** Calls `listener` after a commit of another process, and when jobs were asked to end; returns a function that stops it. */
  watch(listener: (change: 'any' | 'cancelled', isOwn: boolean) => void): () => void {
    // A caller may pass the same function twice, and it is then called twice.
    const each: typeof listener = (change, isOwn) => listener(change, isOwn)
    this.#listeners.add(each)
    if (this.#listeners.size === 1 && !this.#context.db.inMemory) this.#begin()
    return () => {
      if (this.#listeners.delete(each) && this.#listeners.size === 0) this.stop()
    }
  }

  /** Tells the listeners that jobs were asked to end. A transaction ends in the turn in which it begins. */
  tellCancelled(): void {
    queueMicrotask(() => {
      for (const listener of this.#listeners) listener('cancelled', true)
    })
  }

  #begin(): void {
    const { db } = this.#context
    this.#version = db.dataVersion ?? this.#version
    this.#trust = 'unproven'
    this.#written = false
    this.#gapMs = GAP_MS
    // Real writes would interleave with a manual clock's timers in any order.
    if (!this.#clock.attach) this.#stopWatching = watchLog(db.path, () => this.#heardWrite())
    this.#timer = this.#clock.setTimer(() => this.#lookByTime(), IN_COMPANY_MS)
  }

  /** Stops all calls of listeners. */
  stop(): void {
    this.#listeners.clear()
    this.#stopWatching?.()
    this.#timer?.cancel()
    this.#gap?.cancel()
    this.#stopWatching = this.#timer = this.#gap = null
  }

  #lookByTime(): void {
    const changed = this.#look()
    const nowUs = this.#clock.monotonicUs()
    if (changed) {
      this.#companyUntilUs = nowUs + COMPANY_LASTS_MS * 1000
      if (!this.#written) this.#trust = 'no'
    }
    this.#written = false
    const often = this.#trust !== 'yes' && (nowUs < this.#companyUntilUs || this.#hasCompany())
    this.#timer = this.#clock.setTimer(() => this.#lookByTime(), often ? IN_COMPANY_MS : ALONE_MS)
    if (changed) this.#call()
  }

  #heardWrite(): void {
    this.#written = true
    if (this.#trust === 'unproven') this.#trust = 'yes'
    if (!this.#gap) return this.#lookAtWrite()
    this.#writtenInGap = true
    // A write during a commit of this process is probably its own.
    if (this.#looksLeft > 0 && !this.#context.db.pending) this.#lookInGap()
  }

  #lookInGap(): void {
    this.#looksLeft--
    if (!this.#look()) return
    this.#looksLeft = 0
    this.#writtenInGap = false
    this.#trust = 'yes'
    this.#adaptGap()
    this.#call()
  }

  /** Reads now, and again after the gap, since the log is written before the commit is visible. */
  #lookAtWrite(): void {
    this.#writtenInGap = false
    const changed = this.#look()
    this.#looksLeft = changed ? 0 : LOOKS_IN_GAP
    if (changed) {
      this.#trust = 'yes'
      this.#adaptGap()
    }
    this.#gap = this.#clock.setTimer(() => {
      this.#gap = null
      if (this.#writtenInGap || this.#look(false)) this.#lookAtWrite()
    }, this.#gapMs)
    this.#gap.unref?.()
    if (changed) this.#call()
  }

  /** Lengthens the gap while others commit all the time and this process finds nothing to do about it. */
  #adaptGap(): void {
    const nowUs = this.#clock.monotonicUs()
    const quiet = nowUs - this.#calledUs > 2 * LONGEST_GAP_MS * 1000
    const { changes } = this.#context.db
    this.#gapMs = quiet || changes !== this.#ownChanges ? GAP_MS : Math.min(LONGEST_GAP_MS, this.#gapMs * 2)
    this.#ownChanges = changes
    this.#calledUs = nowUs
  }

  /** Whether another process has committed since the last read. @param take false lets the next read report it again */
  #look(take = true): boolean {
    const version = this.#context.db.dataVersion
    if (version === null || version === this.#version) return false
    if (take) this.#version = version
    return true
  }

  #hasCompany(): boolean {
    return hasCompany(this.#context, this.#context.clock.nowUs(), this.#own)
  }

  #call(): void {
    for (const listener of this.#listeners) listener('any', false)
  }
}
