/** How far ahead of its start a process pays at a backend. Pure: times are arguments. */
import { slackOf } from '../../policy/limits/backend.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { paceOf } from '../../policy/limits/pace.ts'

/** The last starts that are looked at, and the part of them that should be in time. */
const STARTS = 64
const IN_TIME = 0.9
const LONGEST_LEAD_US = 5_000_000
/** The next question is answered after this many times as long as a payment takes to become a start, at most. */
const WITHIN = 2
const NONE = { aheadUs: 0, withinUs: 0 }

/**
 * The time from a question to a backend until a handler may begin: the answer, a claim and its commit. Where it is longer
 * than the slack of a payment, a process pays for a later instant, and holds the start until then.
 */
export class Lead {
  readonly #took: number[] = []
  #next = 0

  /** A start took so long, or lapsed after so long. */
  took(us: number): void {
    this.#took[this.#next] = Math.max(0, us)
    this.#next = (this.#next + 1) % STARTS
  }

  /**
   * How long after the decision a start under these policies should count, and how much later it may: then one question
   * pays for all starts until the next one.
   */
  of(policies: readonly LimitPolicy[]): { readonly aheadUs: number; readonly withinUs: number } {
    if (this.#took.length === 0) return NONE
    const sorted = this.#took.toSorted((a, b) => a - b)
    const usualUs = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * IN_TIME))] ?? 0
    let mostUs = LONGEST_LEAD_US
    let slackUs = Infinity
    for (const policy of policies) {
      slackUs = Math.min(slackUs, slackOf(policy))
      // A fixed window knows no later one than the next.
      if (policy.rule?.kind === 'fixed') mostUs = Math.min(mostUs, Math.floor(paceOf(policy).periodUs / 2))
    }
    const aheadUs = Math.min(mostUs, Math.round(usualUs - slackUs / 2))
    return aheadUs <= 0 ? NONE : { aheadUs, withinUs: Math.min(mostUs, WITHIN * usualUs) }
  }
}
