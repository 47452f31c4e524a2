import { type BucketState, newBucket } from '../../policy/limits/bucket.ts'
import { decodeBucket, encodeBucket } from '../../policy/limits/bucket-codec.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import { NO_POLICY, type Timeline } from '../../policy/limits/timeline.ts'
import type { BucketName } from '../contract/limiter.ts'
import type { LedgerBucket } from './ledger.ts'

/** A bucket that begins empty is kept for so long, since a new one would begin empty again. */
const KEPT_EMPTY_US = 86_400_000_000

/** A bucket as it was read from a server, as of now and under the policy in force. */
export abstract class StoredBucket implements LedgerBucket {
  readonly limit: string
  readonly key: string
  readonly policy: LimitPolicy
  /** The limit's revision under which the state is. */
  readonly #revision: number
  state: BucketState
  changed: boolean

  /** @param stored the limit's revision and the state, as in `3 [0,…]`; '': none */
  constructor({ limit, key }: BucketName, stored: string, timeline: Timeline, nowUs: number) {
    this.limit = limit
    this.key = key
    const { policy, revision } = timeline.at(key)
    this.policy = policy ?? NO_POLICY
    this.#revision = revision
    const space = stored.indexOf(' ')
    const written = Number(stored.slice(0, space))
    // A later revision is of limits that were lost since: their buckets are new.
    const known = stored === '' || written > revision ? null : decodeBucket(stored.slice(space + 1))
    this.state = timeline.carry(key, known, written, nowUs) ?? newBucket(NO_POLICY, nowUs)
    const { rule } = this.policy
    this.changed = known === null ? rule?.kind === 'rate' && rule.startEmpty : known.atUs > nowUs || written < revision
  }

  /** Permits held, by unexpired leases. */
  abstract readonly active: number
  /** Takes a permit until then. */
  abstract takePermit(id: string, untilUs: number): void

  /** The instant from which it equals a new one, if nothing else changes. */
  get warmUntilUs(): number {
    return warmUntilUs(this.policy, this.state)
  }

  /** The text to store. */
  text(nowUs: number): string {
    // The state is as of the instant of the reading.
    this.state.atUs = Math.max(this.state.atUs, nowUs)
    return `${this.#revision} ${encodeBucket(this.state)}`
  }
}

/** An instant from which a bucket equals a new one; not always the first. */
function warmUntilUs(
  policy: LimitPolicy,
  { atUs, closedUntilUs, rule: state, spacing, allowance, booked }: BucketState,
): number {
  const { rule } = policy
  let untilUs = Math.max(closedUntilUs, spacing?.nextUs ?? 0, allowance?.untilUs ?? 0, booked?.untilUs ?? 0)
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
