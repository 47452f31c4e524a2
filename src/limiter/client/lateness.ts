import { RateLimitRejected } from '../../jobs/handler-errors.ts'
import { slackUs } from '../../policy/limits/backend.ts'
import { latenessOf } from '../../policy/limits/lateness.ts'
import { isStrict, type LimitPolicy } from '../../policy/limits/limit.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import type { BucketUse, Granted, UnitAnswer, UnitRequest } from '../contract/limiter.ts'
import { Lead } from './lead.ts'
import type { LimiterLimits } from './uses.ts'
import type { Waiter } from './waiter.ts'

/** The starts that come too late from a backend, and how far ahead the next ones are paid so that they come in time. */
export class Lateness {
  readonly #limits: LimiterLimits
  readonly #lead = new Lead()
  /** When the backend first answered. An answer to an earlier question waited for a connection too. */
  #warmUs: number | null = null

  constructor(limits: LimiterLimits) {
    this.#limits = limits
  }

  /** How far ahead of their starts the units of these buckets are paid, and how much later a start may be. */
  leadOf(uses: readonly BucketUse[], nowUs: number): ReturnType<Lead['of']> {
    const policies = uses.flatMap(({ limit }) => this.#limits.policy(limit) ?? [])
    return this.#lead.of(policies, (policy) => patienceOf(policy, null), nowUs)
  }

  /** Learns from the answers to one line. */
  took(requests: readonly UnitRequest[], answers: readonly UnitAnswer[], askedUs: number, nowUs: number): void {
    this.#warmUs ??= nowUs
    let tookUs = -Infinity
    for (const [i, answer] of answers.entries())
      if (answer.kind === 'granted' && answer.atUs !== 0)
        // By the backend's clock too: a wrong guess of the difference to this process's is made up for.
        tookUs = Math.max(tookUs, (requests[i]?.aheadUs ?? 0) - (answer.startInUs ?? 0))
    if (tookUs > -Infinity) this.#lead.took(Math.max(tookUs, askedUs < this.#warmUs ? 0 : nowUs - askedUs), nowUs)
  }

  /**
   * Whether a start came too late for its windows: where it was paid, its units no longer count. A caller without time
   * left asks once more, and then learns that no start came in time.
   */
  isLate(waiter: Waiter, { atUs, startInUs = 0 }: Granted, nowUs: number): boolean {
    // A start that went on without its budget has no instant to keep to.
    if (atUs === 0) return false
    const by = waiter.uses.find(({ limit }) => {
      const policy = this.#limits.policy(limit)
      return policy !== null && -startInUs > patienceOf(policy, atUs)
    })
    if (!by) return false
    if (!waiter.settled && waiter.wasLate && waiter.untilUs <= nowUs)
      waiter.failed(new RateLimitRejected(by.limit, by.key, null, this.#limits.policy(by.limit)))
    waiter.wasLate = true
    return true
  }
}

/**
 * How late a start of plain code may be. A bucket with a burst promises no window: it bears any.
 * @param atUs the instant from which the start counts; null: any one
 */
function patienceOf(policy: LimitPolicy, atUs: number | null): number {
  const { rule } = policy
  if (rule?.kind === 'rate' && !isStrict(policy)) return Infinity
  return rule?.kind === 'fixed' && atUs === null ? slackUs(paceOf(policy).periodUs) : latenessOf(policy, atUs ?? 0)
}
