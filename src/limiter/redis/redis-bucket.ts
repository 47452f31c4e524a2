import { MAX_DURATION_US } from '../../base/duration.ts'
import { type BucketState, decodeBucket, encodeBucket, newBucket } from '../../policy/limits/bucket.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { NO_POLICY, type Timeline } from '../../policy/limits/timeline.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import type { LedgerBucket } from '../ledger/ledger.ts'

/** A bucket that begins empty is kept for so long, since a new one would begin empty again. */
const KEPT_EMPTY_US = 86_400_000_000

/** 100 years, the longest duration. */
const LONGEST_TTL_MS = Math.ceil(MAX_DURATION_US / 1000)

/** A bucket as it was read. */
export class RedisBucket implements LedgerBucket {
  readonly limit: string
  readonly key: string
  readonly policy: LimitPolicy
  readonly active: number
  state: BucketState
  changed: boolean
  /** The permit to take, and the end of its lease. */
  permit: { readonly id: string; readonly untilUs: number } | null = null
  /** The state that was read; ''. there was none. */
  readonly stored: string
  readonly #revision: number

  /** @param stored the limit's revision and the state, as in `3 [0,…]`; '': none */
  constructor(
    name: { readonly limit: string; readonly key: string },
    stored: string,
    active: number,
    timeline: Timeline,
    nowUs: number,
  ) {
    this.limit = name.limit
    this.key = name.key
    this.stored = stored
    this.active = active
    const { policy, revision } = timeline.at(name.key)
    this.policy = policy ?? NO_POLICY
    this.#revision = revision
    const space = stored.indexOf(' ')
    const written = Number(stored.slice(0, space))
    // A later revision is of limits that were lost since: their buckets are new.
    const known = stored === '' || written > revision ? null : decodeBucket(stored.slice(space + 1))
    this.state = timeline.carry(name.key, known, written, nowUs) ?? newBucket(NO_POLICY, nowUs)
    const { rule } = this.policy
    this.changed = known === null ? rule?.kind === 'rate' && rule.startEmpty : known.atUs > nowUs || written < revision
  }

  takePermit(id: string, untilUs: number): void {
    this.permit = { id, untilUs }
  }

  /** The text to store, and for how long; '': the bucket equals a new one. */
  written(nowUs: number): { readonly text: string; readonly ttlMs: number } {
    const leftUs = warmUntilUs(this.policy, this.state) - nowUs
    if (leftUs <= 0) return { text: '', ttlMs: 0 }
    // The state is as of the instant of the reading.
    this.state.atUs = Math.max(this.state.atUs, nowUs)
    return {
      text: `${this.#revision} ${encodeBucket(this.state)}`,
      ttlMs: Math.min(Math.ceil(leftUs / 1000), LONGEST_TTL_MS) + 1,
    }
  }
}

/** An instant from which a bucket equals a new one; not always the first. */
function warmUntilUs(
  policy: LimitPolicy,
  { atUs, closedUntilUs, rule: state, spacing, allowance }: BucketState,
): number {
  const { rule } = policy
  let untilUs = Math.max(closedUntilUs, spacing?.nextUs ?? 0, allowance?.untilUs ?? 0)
  if (rule === null || state === null) return untilUs
  const { periodUs } = paceOf(policy)
  if (rule.kind === 'rate' && state.kind === 'rate') {
    // A penalty leaves one unit.
    const refillUs = closedUntilUs === 0 ? 0 : closedUntilUs + Math.ceil((rule.burst / rule.rate) * rule.periodUs) + 2
    untilUs = Math.max(untilUs, state.tatUs + 2, refillUs)
    return rule.startEmpty ? Math.max(untilUs, atUs + KEPT_EMPTY_US) : untilUs
  }
  if (state.kind === 'spacing') return Math.max(untilUs, state.nextUs)
  if (state.kind === 'sliding' && rule.kind === 'sliding') {
    const lastUs = state.log.at(-2)
    if (lastUs === undefined) return untilUs
    return Math.max(untilUs, lastUs + periodUs * (2 + Math.ceil(state.debt / rule.max)))
  }
  if (state.kind === 'fixed' && rule.kind === 'fixed') {
    const units = state.used + (state.next ?? 0)
    if (units === 0) return untilUs
    const offsetUs = rule.window.align === 'calendar' ? (rule.window.wallOffsetUs ?? 0) : 0
    return Math.max(untilUs, state.startUs - offsetUs + periodUs * (2 + Math.ceil(units / rule.max)))
  }
  return untilUs
}
