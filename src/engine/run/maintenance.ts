import type { Clock, Timer } from '../../base/clock.ts'
import { isFinal } from '../../base/errors.ts'
import { pauseAfter } from '../../base/persist.ts'
import type { Trouble } from '../../base/trouble.ts'

/** A chore: what to do, how often, and what it is called when it fails. */
export interface Chore {
  readonly name: string
  readonly everyMs: number
  readonly work: () => Promise<void>
}

const FIRST_PAUSE_MS = 250

/**
 * Does chores at their intervals, each never twice at once; one that fails is tried again sooner, with growing pauses. One timer serves
 * all of them: the intervals are counted from the same instant, so that chores fall together.
 */
export class Chores {
  /** When each is due, on the steady clock. */
  readonly #due = new Map<Chore, number>()
  readonly #busy = new Set<Chore>()
  readonly #clock: Clock
  readonly #trouble: Trouble
  readonly #beganMs: number
  #timer: Timer | null = null
  #timerMs = Infinity
  readonly #pauses = new Set<Timer>()

  constructor(clock: Clock, trouble: Trouble, chores: readonly Chore[]) {
    this.#clock = clock
    this.#trouble = trouble
    this.#beganMs = this.#nowMs()
    for (const chore of chores) this.#due.set(chore, this.#beganMs + chore.everyMs)
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
    for (const [chore] of due) {
      const { everyMs } = chore
      const intervals = Math.max(1, Math.floor((nowMs + 1 - this.#beganMs) / everyMs) + 1)
      this.#due.set(chore, this.#beganMs + intervals * everyMs)
    }
    this.#arm()
    for (const [chore] of due) if (!this.#busy.has(chore)) void this.#now(chore)
  }

  async #now(chore: Chore): Promise<void> {
    this.#busy.add(chore)
    for (let failures = 0; this.#due.has(chore);) {
      try {
        await chore.work()
        this.#trouble.over(chore.name)
        break
      } catch (error) {
        this.#trouble.failed(chore.name, error)
        if (isFinal(error)) this.#due.delete(chore)
        else await this.#pause(Math.min(chore.everyMs, pauseAfter(++failures, FIRST_PAUSE_MS)))
      }
    }
    this.#busy.delete(chore)
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
