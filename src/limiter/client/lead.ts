/** How far ahead of its start a process pays at a backend. Pure: times are arguments. */
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { paceOf } from '../../policy/limits/pace.ts'

/** The last starts that are looked at, and the part of them that should be in time. */
const STARTS = 64
const IN_TIME = 0.9
const LONGEST_LEAD_US = 5_000_000
/** Older answers say nothing of the present way. */
const REMEMBERED_US = 10_000_000
/** Without a new answer they are looked through again after this time. */
const LOOKED_US = 1_000_000
/** The next question is answered after this many times as long as a payment takes to become a start, at most. */
const WITHIN = 2
const NONE = { aheadUs: 0, withinUs: 0 }

/**
 * The time from a question to a backend until a handler may begin: the answer, a claim and its commit. Where it is longer
 * than the slack of a payment, a process pays for a later instant, and holds the start until then.
 */
export class Lead {
  readonly #took: { readonly us: number; readonly atUs: number }[] = []
  #next = 0
  #usualUs: number | null = null
  #againUs = -Infinity

  /** A start took so long, or lapsed after so long. @param nowUs on any steady clock */
  took(us: number, nowUs: number): void {
    this.#took[this.#next] = { us: Math.max(0, us), atUs: nowUs }
    this.#next = (this.#next + 1) % STARTS
    this.#againUs = -Infinity
  }

  /**
   * How long after the decision a start under these policies should count, and how much later it may: then one question
   * pays for all starts until the next one.
   * @param patienceOf how late a start under a policy may be
   * @param nowUs on the clock of `took`
   */
  of(
    policies: readonly LimitPolicy[],
    patienceOf: (policy: LimitPolicy) => number,
    nowUs: number,
  ): { readonly aheadUs: number; readonly withinUs: number } {
    const usualUs = this.#usual(nowUs)
    if (usualUs === null) return NONE
    let mostUs = LONGEST_LEAD_US
    let patienceUs = Infinity
    for (const policy of policies) {
      patienceUs = Math.min(patienceUs, patienceOf(policy))
      // A fixed window knows no later one than the next.
      if (policy.rule?.kind === 'fixed') mostUs = Math.min(mostUs, Math.floor(paceOf(policy).periodUs / 2))
    }
    const aheadUs = Math.min(mostUs, Math.round(usualUs - patienceUs / 2))
    return aheadUs <= 0 ? NONE : { aheadUs, withinUs: Math.min(mostUs, WITHIN * usualUs) }
  }

  /** How long nine of ten took; null: none is known. */
  #usual(nowUs: number): number | null {
    if (nowUs < this.#againUs) return this.#usualUs
    this.#againUs = nowUs + LOOKED_US
    const known = this.#took.filter(({ atUs }) => nowUs - atUs < REMEMBERED_US)
    const sorted = known.map(({ us }) => us).toSorted((a, b) => a - b)
    // Of a few, the longest is as likely to be an accident.
    return (this.#usualUs = sorted[Math.floor((sorted.length - 1) * IN_TIME)] ?? null)
  }
}
