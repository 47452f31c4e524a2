/** The most by which two clocks drift apart, in µs for each µs. */
const DRIFT = 5e-4

/**
 * How far a server's clock is ahead of this process's steady clock, from the instants that its answers name. Each one
 * bounds it from both sides: the server read its clock between the question and the answer.
 */
export class ClockOffset {
  #lowUs = -Infinity
  #highUs = Infinity
  #notedUs = 0

  /**
   * Notes an answer.
   * @param fromUs the server's instant @param toUs the latest that it may have been, where the server rounds it
   */
  note(sentUs: number, answeredUs: number, fromUs: number, toUs: number = fromUs): void {
    const driftUs = DRIFT * Math.max(0, answeredUs - this.#notedUs)
    const lowUs = fromUs - answeredUs
    const highUs = toUs - sentUs
    const isSet = lowUs > this.#highUs + driftUs || highUs < this.#lowUs - driftUs
    this.#notedUs = answeredUs
    // A server whose clock was set, or another server, begins again.
    this.#lowUs = isSet ? lowUs : Math.max(lowUs, this.#lowUs - driftUs)
    this.#highUs = isSet ? highUs : Math.min(highUs, this.#highUs + driftUs)
  }

  get isKnown(): boolean {
    return this.#lowUs > -Infinity
  }

  /** The least that it can be. */
  get leastUs(): number {
    return this.#lowUs
  }

  /** The best guess. It is wrong by at most half of `uncertainUs`. */
  get guessUs(): number {
    return Math.round((this.#lowUs + this.#highUs) / 2)
  }

  get uncertainUs(): number {
    return this.#highUs - this.#lowUs
  }
}
