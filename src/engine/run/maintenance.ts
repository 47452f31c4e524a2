import type { Clock, Timer } from '../../base/clock.ts'
import { isFinal } from '../../base/errors.ts'
import { pauseAfter } from '../../base/persist.ts'
import type { Trouble } from '../../base/trouble.ts'

/** One piece of maintenance: its work, its interval, and its name in logs. */
export interface Routine {
  readonly name: string
  readonly everyMs: number
  readonly work: () => Promise<void>
}

const FIRST_PAUSE_MS = 250

/**
 * Runs routines at their intervals, each never twice at once. A failed one is retried sooner, with growing pauses. One
 * timer serves all of them: the intervals count from the same instant, so that routines coincide.
 */
export class Maintenance {
  /** The due time of each, on the steady clock. */
  readonly #due = new Map<Routine, number>()
  readonly #busy = new Set<Routine>()
  readonly #clock: Clock
  readonly #trouble: Trouble
  readonly #beganMs: number
  #timer: Timer | null = null
  #timerMs = Infinity
  readonly #pauses = new Set<Timer>()

  constructor(clock: Clock, trouble: Trouble, routines: readonly Routine[]) {
    this.#clock = clock
    this.#trouble = trouble
    this.#beganMs = this.#nowMs()
    for (const routine of routines) this.#due.set(routine, this.#beganMs + routine.everyMs)
    this.#arm()
  }

  stop(): void {
    for (const timer of [this.#timer, ...this.#pauses]) timer?.cancel()
    this.#due.clear()
  }

  #nowMs(): number {
    return this.#clock.monotonicUs() / 1000
  }

  #arm(): void {
    const dueMs = Math.min(Infinity, ...this.#due.values())
    if (dueMs >= this.#timerMs || dueMs === Infinity) return
    this.#timer?.cancel()
    this.#timerMs = dueMs
    this.#timer = this.#clock.setTimer(() => this.#tick(), Math.max(0, dueMs - this.#nowMs()))
  }

  #tick(): void {
    this.#timerMs = Infinity
    const nowMs = this.#nowMs()
    // A timer may fire a little early by another clock.
    const due = [...this.#due].filter(([, dueMs]) => dueMs <= nowMs + 1)
    for (const [routine] of due) {
      const { everyMs } = routine
      const intervals = Math.max(1, Math.floor((nowMs + 1 - this.#beganMs) / everyMs) + 1)
      this.#due.set(routine, this.#beganMs + intervals * everyMs)
    }
    this.#arm()
    for (const [routine] of due) if (!this.#busy.has(routine)) void this.#now(routine)
  }

  async #now(routine: Routine): Promise<void> {
    this.#busy.add(routine)
    for (let failures = 0; this.#due.has(routine);) {
      try {
        await routine.work()
        this.#trouble.over(routine.name)
        break
      } catch (error) {
        this.#trouble.failed(routine.name, error)
        if (isFinal(error)) this.#due.delete(routine)
        else await this.#pause(Math.min(routine.everyMs, pauseAfter(++failures, FIRST_PAUSE_MS)))
      }
    }
    this.#busy.delete(routine)
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.setTimer(() => {
        this.#pauses.delete(timer)
        resolve()
      }, ms)
      this.#pauses.add(timer)
    })
  }
}
