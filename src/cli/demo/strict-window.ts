/**
 * A partner's sliding window, counted exactly and without any of Sluice's own maths, so that the two cannot share a
 * mistake: no half-open interval of `perUs` holds more than `max` calls that were let in.
 */
export class StrictWindow {
  readonly #max: number
  readonly #perUs: number
  readonly #arrivals: number[] = []
  #oldest = 0

  constructor(max: number, perUs: number) {
    this.#max = max
    this.#perUs = perUs
  }

  /** In how many µs one more call would be admitted; 0: now. */
  refusedForUs(nowUs: number): number {
    while ((this.#arrivals[this.#oldest] ?? Infinity) + this.#perUs <= nowUs) this.#oldest++
    if (this.#arrivals.length - this.#oldest < this.#max) return 0
    return (this.#arrivals[this.#arrivals.length - this.#max] ?? nowUs) + this.#perUs - nowUs
  }

  /** Counts a call that was let in. */
  take(nowUs: number): void {
    this.#arrivals.push(nowUs)
  }
}

/** The most calls that any half-open interval of `perUs` holds, wherever it starts. @param sortedUs instants, oldest first. */
export function worstWindow(sortedUs: readonly number[], perUs: number): number {
  let worst = 0
  let oldest = 0
  for (const [i, atUs] of sortedUs.entries()) {
    while ((sortedUs[oldest] ?? atUs) + perUs <= atUs) oldest++
    worst = Math.max(worst, i - oldest + 1)
  }
  return worst
}
