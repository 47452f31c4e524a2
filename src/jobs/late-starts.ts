import type { KeptWindow } from './job.ts'

/** A start that has begun. All but its instant is on the steady clock. */
interface Begun {
  /** Its instant, on the store's clock. */
  readonly atUs: number
  /** Its instant, at the soonest. */
  readonly soonestUs: number
  /** Before its handler was called. */
  readonly fromUs: number
  /** After. */
  readonly begunUs: number
}

/** Starts that began close together. */
interface Moment {
  /** The first of their instants, on the store's clock. */
  atUs: number
  /** When they began, on the steady clock. */
  readonly fromUs: number
  toUs: number
  units: number
}

/** The starts of a bucket from a late one on, oldest first. */
interface Tracked {
  /** Until when a late one counts, on the steady clock. */
  untilUs: number
  readonly moments: Moment[]
}

/** The most moments that are remembered. Buckets without starts for the longest time go first. */
const MOST_MOMENTS = 100_000
/** A start that has used up this part of the guard is late. The rest is for the next one, which may begin a bit sooner. */
const LATE = 1 / 2
/** How much of the guard a moment lasts. All of its starts count as its last one. */
const MOMENT = 1 / 8
/** In a long period a moment lasts for this part of it. */
const OF_PERIOD = 1 / 10_000

/**
 * Keeps sliding windows at the handlers of an engine although starts are late.
 *
 * A store counts two starts in no common window if their instants are a period and the guard apart. They begin at least
 * a period apart, unless the first one is later than the guard. From such a start on, until a period after it, this
 * class counts the units that begin here. The second start waits until a period has passed since the first, or until the
 * last period has room for both. So it waits no longer than the first was late, and units that return delay nothing.
 * While a start waits for something else beyond its instant, it is the late one, and those that overtake it count.
 */
export class LateStarts {
  readonly #tracked = new Map<string, Tracked>()
  #moments = 0

  /** Notes a start of these windows. */
  note(windows: readonly KeptWindow[], { atUs, soonestUs, fromUs, begunUs }: Begun): void {
    for (const window of windows) {
      const { guardUs, periodUs } = window
      // A handler that keeps the processor began before that.
      const nowUs = Math.min(begunUs, fromUs + guardUs * MOMENT)
      const isLate = nowUs - soonestUs > guardUs * LATE
      if (!isLate && this.#tracked.size === 0) continue
      const name = nameOf(window)
      const tracked = this.#tracked.get(name) ?? { untilUs: -Infinity, moments: [] }
      this.#forget(name)
      if (isLate) tracked.untilUs = Math.max(tracked.untilUs, nowUs + periodUs)
      if (tracked.untilUs <= nowUs) continue
      add(tracked.moments, window, atUs, nowUs)
      this.#tracked.set(name, tracked)
      this.#moments += tracked.moments.length
    }
    for (const [name, { untilUs }] of this.#tracked) {
      if (this.#moments <= MOST_MOMENTS && untilUs > begunUs) break
      this.#forget(name)
    }
  }

  /** A start of these windows will begin later than its instant, at `atUs` on the steady clock. */
  keeps(windows: readonly KeptWindow[], atUs: number): void {
    for (const window of windows) {
      const name = nameOf(window)
      const tracked = this.#tracked.get(name) ?? { untilUs: -Infinity, moments: [] }
      tracked.untilUs = Math.max(tracked.untilUs, atUs + window.periodUs)
      this.#tracked.set(name, tracked)
    }
  }

  /** When its windows have room for a start, on the steady clock. @param atUs its instant, on the store's clock */
  roomUs(windows: readonly KeptWindow[], atUs: number): number {
    let us = -Infinity
    if (this.#tracked.size === 0) return us
    for (const window of windows) {
      const { guardUs, max, periodUs, units } = window
      const moments = this.#tracked.get(nameOf(window))?.moments ?? []
      const apart = moments.findLast((moment) => Math.abs(atUs - moment.atUs) >= periodUs + guardUs)
      let left = max - Math.min(units, max)
      const full = apart && moments.findLast((moment) => (left -= moment.units) < 0)
      if (full) us = Math.max(us, Math.min(apart.toUs, full.toUs) + periodUs)
    }
    return us
  }

  #forget(name: string): void {
    this.#moments -= this.#tracked.get(name)?.moments.length ?? 0
    this.#tracked.delete(name)
  }
}

function nameOf({ limit, key }: KeptWindow): string {
  return `${limit}\0${key}`
}

function add(moments: Moment[], { guardUs, periodUs, units }: KeptWindow, atUs: number, nowUs: number): void {
  const last = moments.at(-1)
  if (last && nowUs - last.fromUs <= Math.max(guardUs * MOMENT, periodUs * OF_PERIOD)) {
    last.atUs = Math.min(last.atUs, atUs)
    last.toUs = nowUs
    last.units += units
  } else moments.push({ atUs, fromUs: nowUs, toUs: nowUs, units })
  moments.splice(
    0,
    moments.findIndex(({ toUs }) => toUs + periodUs > nowUs),
  )
}
