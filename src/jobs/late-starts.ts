import type { KeptWindow } from './job.ts'

/** A start that has begun, on the steady clock. */
interface Begun {
  /** Its instant, at the soonest. */
  readonly soonestUs: number
  /** Before its handler was called. */
  readonly fromUs: number
  /** After. */
  readonly begunUs: number
}

/** Units that began close together, on the steady clock. */
interface Moment {
  readonly fromUs: number
  toUs: number
  units: number
}

/** The starts of a bucket from a late one on, oldest first. */
interface Tracked {
  /** Until when the last late one counts, on the steady clock. */
  untilUs: number
  readonly moments: Moment[]
}

/** The most buckets with late starts, and the most moments of each, that are remembered. The oldest go first. */
const AT_MOST = 1000
/** A start that has used up this part of the guard is late. The rest is for the next one, which may begin a bit sooner. */
const LATE = 1 / 2
/** How much of the guard a moment lasts. All of its starts count as its last one. */
const MOMENT = 1 / 8

/**
 * Keeps sliding windows at the handlers of a process although starts are late.
 *
 * Instants that a store counts in no common window are a period and the guard apart. So their starts begin at least a
 * period apart, unless the first one is later than the guard. From such a start on, until a period after it, this
 * counts the units that begin here, and the next ones wait until the last period has room for them.
 */
export class LateStarts {
  readonly #tracked = new Map<string, Tracked>()

  /** Notes a start of these windows. */
  note(windows: readonly KeptWindow[], { soonestUs, fromUs, begunUs }: Begun): void {
    for (const window of windows) {
      const { guardUs, periodUs } = window
      // A handler that keeps the processor began before that.
      const nowUs = Math.min(begunUs, fromUs + guardUs * MOMENT)
      const isLate = nowUs - soonestUs > guardUs * LATE
      if (!isLate && this.#tracked.size === 0) continue
      const name = `${window.limit}\0${window.key}`
      const tracked = this.#tracked.get(name) ?? { untilUs: -Infinity, moments: [] }
      this.#tracked.delete(name)
      if (isLate) tracked.untilUs = nowUs + periodUs
      if (tracked.untilUs <= nowUs) continue
      this.#tracked.set(name, tracked)
      add(tracked.moments, window, nowUs)
    }
    for (const [name, { untilUs }] of this.#tracked) {
      if (this.#tracked.size <= AT_MOST && untilUs > begunUs) break
      this.#tracked.delete(name)
    }
  }

  /** When its windows have room for a start, on the steady clock. */
  roomUs(windows: readonly KeptWindow[]): number {
    let us = -Infinity
    if (this.#tracked.size === 0) return us
    for (const { limit, key, max, periodUs, units } of windows) {
      let left = max - Math.min(units, max)
      const full = this.#tracked.get(`${limit}\0${key}`)?.moments.findLast((moment) => (left -= moment.units) < 0)
      if (full) us = Math.max(us, full.toUs + periodUs)
    }
    return us
  }
}

function add(moments: Moment[], { guardUs, periodUs, units }: KeptWindow, nowUs: number): void {
  const last = moments.at(-1)
  if (last && nowUs - last.fromUs <= guardUs * MOMENT) {
    last.toUs = nowUs
    last.units += units
  } else moments.push({ fromUs: nowUs, toUs: nowUs, units })
  const kept = moments.findIndex(({ toUs }) => toUs + periodUs > nowUs)
  moments.splice(0, Math.max(kept, moments.length - AT_MOST))
}
