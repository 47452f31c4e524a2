import { type Activity, type Clock, systemClock, type Timer } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import { checkInstant } from '../base/instant.ts'
import { checkOptions, show } from '../base/options.ts'
import { durationUs, type Duration } from '../base/duration.ts'

/** A clock that moves only when a test advances it, so timers fire at once and in a fixed order. */
export interface ManualClock extends Clock {
  /** The wall clock, in epoch ms. */
  now(): number
  /** Moves both clocks forward, and fires every timer on the way. It resolves when all due work is done. */
  advance(by: Duration): Promise<void>
  /**
   * The time to the next timer, in ms (fractions allowed); null if none is set. Advancing by it fires that timer, and
   * no later one.
   */
  next(): number | null
  /** Waits on this clock; handlers use it in place of a real sleep. */
  sleep(duration: Duration): Promise<void>
  /** Steps the wall clock alone, as a time correction does: `'-30m'` or `'2h'`. Timers and limits do not change. */
  step(by: string | number): void
}

interface Due extends Timer {
  readonly atUs: number
  readonly order: number
  run(): void
}

/** Real ms without progress after which a handler counts as parked: it waits for something that no clock brings. */
const PARKED_AFTER_MS = 50
/** A timer may end the work without an event: the clock looks again after this time. */
const EVENT_WITHIN_MS = 1
/** The rounding error of whole µs passed as fractions of ms: 1,001 µs must not become 1,002. */
const ROUNDING_US = 0.001
let boots = 0

/**
 * Creates a manual clock for `new Sluice({ clock })`. Several engines may share it.
 * @param options.start epoch ms, a Date or an ISO text; default 2026-01-01T00:00:00Z
 * @param options.enterAlways true: the body of a workflow is entered again after every step, so that a test sees what a
 * crash would show; default false
 * @throws {SluiceError} `option.invalid`
 */
export function createManualClock(
  options: { start?: number | Date | string; enterAlways?: boolean } = {},
): ManualClock {
  checkOptions(options, ['start', 'enterAlways'], 'createManualClock')
  const { start, enterAlways = false } = options
  if (typeof enterAlways !== 'boolean')
    throw new SluiceError(
      'option.invalid',
      `enterAlways of createManualClock is invalid: ${show(enterAlways)}. Expected true or false.`,
    )
  return new SteppedClock(startMs(start), enterAlways)
}

function startMs(start: unknown = '2026-01-01T00:00:00Z'): number {
  const date = start instanceof Date ? start : isDated(start) ? new Date(start) : null
  if (date === null || Number.isNaN(date.getTime()))
    throw new SluiceError(
      'option.invalid',
      `start of createManualClock is invalid: ${show(start)}. Expected epoch ms, a valid Date or an ISO text.`,
    )
  return checkInstant(date.getTime(), 'start of createManualClock')
}

function isDated(start: unknown): start is string | number {
  return typeof start === 'string' || typeof start === 'number'
}

class SteppedClock implements ManualClock {
  readonly bootId: string = `manual-${process.pid}-${++boots}`
  readonly #activities = new Set<Activity>()
  readonly #timers: Due[] = []
  #steadyUs = 0
  #wallOffsetUs: number
  #order = 0
  #sleeping = 0
  #parked = 0

  readonly enterAlways: boolean

  constructor(startMs: number, enterAlways: boolean) {
    this.enterAlways = enterAlways
    this.#wallOffsetUs = Math.round(startMs * 1000)
  }

  now(): number {
    return (this.#steadyUs + this.#wallOffsetUs) / 1000
  }

  monotonicUs(): number {
    return this.#steadyUs
  }

  next(): number | null {
    const first = this.#timers[0]
    return first ? Math.max(0, first.atUs - this.#steadyUs) / 1000 : null
  }

  setTimer(run: () => void, delayMs: number): Timer {
    const atUs = this.#steadyUs + Math.max(0, Math.ceil(delayMs * 1000 - ROUNDING_US))
    const due: Due = { atUs, run, order: ++this.#order, cancel: () => this.#remove(due) }
    this.#insert(due)
    return due
  }

  attach(activity: Activity): () => void {
    this.#activities.add(activity)
    return () => this.#activities.delete(activity)
  }

  sleep(duration: Duration): Promise<void> {
    this.#sleeping++
    return new Promise((resolve) => {
      this.setTimer(
        () => {
          this.#sleeping--
          resolve()
        },
        durationUs(duration, 'sleep') / 1000,
      )
    })
  }

  step(by: string | number): void {
    const back = typeof by === 'number' ? by < 0 : typeof by === 'string' && by.startsWith('-')
    const far = !back ? by : typeof by === 'number' ? -by : by.slice(1)
    const us = durationUs(far as Duration, 'step')
    this.#wallOffsetUs += back ? -us : us
  }

  async advance(by: Duration): Promise<void> {
    const untilUs = this.#steadyUs + durationUs(by, 'advance')
    for (;;) {
      await this.#quiet()
      const next = this.#timers[0]
      if (!next || next.atUs > untilUs) break
      this.#timers.shift()
      this.#steadyUs = Math.max(this.#steadyUs, next.atUs)
      next.run()
    }
    this.#steadyUs = untilUs
  }

  /** Turns the event loop until no store call is in flight and no handler is running. */
  async #quiet(): Promise<void> {
    let calm = 0
    let sinceMs: number | null = null
    await turn()
    while (calm < 3) {
      const working = this.#working()
      if (this.#storeBusy()) {
        calm = 0
        sinceMs = null
        await event()
        continue
      }
      if (working <= this.#parked) {
        this.#parked = Math.max(0, working)
        if (++calm < 3) await turn()
        continue
      }
      // Real time: a handler may wait for the test itself, which this clock cannot see.
      sinceMs ??= realMs()
      if (realMs() - sinceMs > PARKED_AFTER_MS) this.#parked = working
      calm = 0
      await event()
    }
  }

  #storeBusy(): boolean {
    for (const activity of this.#activities) if (activity.pending()) return true
    return false
  }

  #working(): number {
    let running = 0
    for (const activity of this.#activities) running += activity.running()
    return running - this.#sleeping
  }

  #insert(due: Due): void {
    let low = 0
    let high = this.#timers.length
    while (low < high) {
      const middle = (low + high) >> 1
      const other = this.#timers[middle] as Due
      if (other.atUs < due.atUs || (other.atUs === due.atUs && other.order < due.order)) low = middle + 1
      else high = middle
    }
    this.#timers.splice(low, 0, due)
  }

  #remove(due: Due): void {
    const at = this.#timers.indexOf(due)
    if (at >= 0) this.#timers.splice(at, 1)
  }
}

/** The next turn of the event loop. */
function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

/**
 * A turn in which something has arrived: unlike `turn`, it leaves the processor to the server at work. An immediate
 * without a reference runs after the event loop has waited, and does not keep it from waiting.
 */
function event(): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearImmediate(immediate)
      timer.cancel()
      resolve()
    }
    const immediate = setImmediate(end).unref()
    const timer = systemClock.setTimer(end, EVENT_WITHIN_MS)
  })
}

function realMs(): number {
  return systemClock.monotonicUs() / 1000
}
