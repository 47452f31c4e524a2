import type { Clock, Timer } from '../../base/clock.ts'
import { watchLog } from '../../database/log-watch.ts'
import type { Context } from './context.ts'
import { hasCompany } from './workers.ts'

const IN_COMPANY_MS = 50
const ALONE_MS = 1000
/** How long a process that wrote without being registered as a worker still counts as company. */
const COMPANY_LASTS_MS = 60_000
/** Looks that writes to the log cause are so far apart at least. */
const GAP_MS = 2
/** And so far at most, while what others commit gives this process nothing to do. */
const LONGEST_GAP_MS = 50

/**
 * Notices commits of other processes. A watch of the write-ahead log says that somebody has written, and
 * `PRAGMA data_version` tells whether it was another process. Where the watch proves nothing, timers look instead: every
 * 50 ms in company, every second alone. A store in memory has no other processes.
 */
export class OtherProcesses {
  readonly #context: Context
  readonly #clock: Clock
  readonly #own: ReadonlySet<number>
  readonly #listeners = new Set<(change: 'any') => void>()
  #version = 0
  #companyUntilUs = 0
  #timer: Timer | null = null
  #stopWatching: (() => void) | null = null
  /** `yes`: the watch announced the last foreign commit, or has announced anything at all when there was none yet. */
  #trust: 'unproven' | 'yes' | 'no' = 'unproven'
  /** Whether the log was written since the last timed look. */
  #written = false
  /** Set between two looks that writes cause. */
  #gap: Timer | null = null
  #gapMs = GAP_MS
  #writtenInGap = false
  /** Of this process, when its listeners were last called. */
  #ownChanges = 0
  #calledUs = 0

  /** @param own the workers of this store: others that are registered are company */
  constructor(context: Context, clock: Clock, own: ReadonlySet<number>) {
    this.#context = context
    this.#clock = clock
    this.#own = own
  }

  /** Calls `listener` when another process has committed; returns how to stop that. */
  watch(listener: (change: 'any') => void): () => void {
    if (this.#context.db.inMemory) return () => undefined
    // The same function may be given twice, and is then called twice.
    const each = (change: 'any'): void => listener(change)
    this.#listeners.add(each)
    if (this.#listeners.size === 1) this.#begin()
    return () => {
      if (this.#listeners.delete(each) && this.#listeners.size === 0) this.stop()
    }
  }

  #begin(): void {
    const { db } = this.#context
    this.#version = db.dataVersion ?? this.#version
    this.#trust = 'unproven'
    this.#written = false
    this.#gapMs = GAP_MS
    // Real writes would meet a manual clock's timers in any order.
    if (!this.#clock.attach) this.#stopWatching = watchLog(db.path, () => this.#heardWrite())
    this.#timer = this.#clock.setTimer(() => this.#lookByTime(), IN_COMPANY_MS)
  }

  /** Calls no listener any more. */
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
    if (this.#gap) this.#writtenInGap = true
    else this.#lookAtWrite()
  }

  /** Looks now, and again after the gap: the log is written before the commit can be seen. */
  #lookAtWrite(): void {
    this.#writtenInGap = false
    const changed = this.#look()
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

  /** Where others commit all the time and this process finds nothing to do about it, it looks less and less often. */
  #adaptGap(): void {
    const nowUs = this.#clock.monotonicUs()
    const quiet = nowUs - this.#calledUs > 2 * LONGEST_GAP_MS * 1000
    const { changes } = this.#context.db
    this.#gapMs = quiet || changes !== this.#ownChanges ? GAP_MS : Math.min(LONGEST_GAP_MS, this.#gapMs * 2)
    this.#ownChanges = changes
    this.#calledUs = nowUs
  }

  /** Whether another process has committed since the last look. @param take false leaves it to the next look to say so again */
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
    for (const listener of this.#listeners) listener('any')
  }
}
