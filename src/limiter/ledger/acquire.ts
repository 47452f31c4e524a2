import { charge, takeAtOnce } from '../../policy/limits/bucket.ts'
import { outsideUntil } from '../../policy/limits/guarantee.ts'
import { opensUs } from '../../policy/limits/opening.ts'
import { chargeShadow } from '../../policy/limits/shadow.ts'
import type { BucketUse, Denied, HeldPermit, UnitAnswer, UnitRequest, Unknown } from '../contract/limiter.ts'
import type { Ledger, LedgerBucket } from './ledger.ts'

/** The most passes over the buckets of one request. Only the guard of a fixed window makes a second one differ. */
const PASSES = 64

/** The buckets of a request, in the order of its uses. */
export function bucketsOf(ledger: Ledger, request: Pick<UnitRequest, 'uses'>): LedgerBucket[] | Unknown {
  const buckets: LedgerBucket[] = []
  for (const { limit, key } of request.uses) {
    const bucket = ledger.bucket(limit, key)
    if (bucket === null) return { kind: 'unknown', limit }
    buckets.push(bucket)
  }
  return buckets
}

/** The first instant at which all buckets admit a request, and the bucket that decides it. */
export interface Opening {
  /** Infinity: a permit must return first. */
  readonly atUs: number
  /** Null: all admit it now. */
  readonly by: LedgerBucket | null
}

/**
 * Finds the first instant from `fromUs` at which all buckets admit a request.
 * @param ownPermits permits count as free, for a request that takes them later
 */
export function openingOf(
  ledger: Ledger,
  buckets: readonly LedgerBucket[],
  { uses, priority }: Pick<UnitRequest, 'uses' | 'priority'>,
  fromUs: number,
  ownPermits = false,
): Opening {
  let atUs = fromUs
  let by: LedgerBucket | null = null
  for (let pass = 0; pass < PASSES; pass++) {
    let nextUs = atUs
    for (let i = 0; i < buckets.length; i++) {
      const bucket = buckets[i] as LedgerBucket
      const own = isAssured(buckets, uses, bucket, fromUs) ? null : priority
      const untilUs = opensUs(ledger.timeline(bucket.limit), bucket, atUs, uses[i]?.weight ?? 1, own, ownPermits)
      if (untilUs <= nextUs) continue
      nextUs = untilUs
      by = bucket
      if (untilUs === Infinity) return { atUs: untilUs, by }
    }
    if (nextUs === atUs) break
    atUs = nextUs
  }
  return { atUs, by }
}

/** Whether a request is within the share of a bucket that another of its buckets guarantees: it goes before all others. */
export function isAssured(
  buckets: readonly LedgerBucket[],
  uses: UnitRequest['uses'],
  { limit }: LedgerBucket,
  nowUs: number,
): boolean {
  return buckets.some(({ policy: { of }, state, active }, i) => {
    return of?.limit === limit && outsideUntil(of, state, active, nowUs, uses[i]?.weight ?? 1) === null
  })
}

/** Decides requests in order. @param decide decides one of them; default: by its buckets alone */
export function acquireIn(
  ledger: Ledger,
  requests: readonly UnitRequest[],
  decide: (request: UnitRequest) => UnitAnswer = (request) => acquireOne(ledger, request),
): UnitAnswer[] {
  const stopped = new Map<number, UnitAnswer>()
  return requests.map((request) => {
    const before = stopped.size === 0 ? undefined : stopped.get(request.line)
    if (before) return before
    const answer = counted(ledger, request, decide(request))
    if (answer.kind !== 'granted') stopped.set(request.line, answer)
    return answer
  })
}

/** Tells a caller that is refused how many others are. */
function counted(ledger: Ledger, { caller }: UnitRequest, answer: UnitAnswer): UnitAnswer {
  if (answer.kind !== 'denied' || caller === undefined) return answer
  const { by, retryAfterUs } = answer
  const callers = ledger.bucket(by.limit, by.key)?.refused?.(caller, retryAfterUs)
  return callers === undefined ? answer : { ...answer, callers }
}

/** Decides one request. */
export function acquireOne(ledger: Ledger, request: UnitRequest): UnitAnswer {
  const [first] = request.uses
  return first && request.uses.length === 1 ? acquireFromOne(ledger, request, first) : acquireFromAll(ledger, request)
}

/** The most frequent case, without lists. */
function acquireFromOne(ledger: Ledger, request: UnitRequest, { limit, key, weight }: BucketUse): UnitAnswer {
  const { nowUs } = ledger
  const { aheadUs = 0, withinUs = 0 } = request
  const bucket = ledger.bucket(limit, key)
  if (bucket === null) return { kind: 'unknown', limit }
  const { policy, state } = bucket
  if (aheadUs === 0 && takeAtOnce(policy, state, nowUs, weight)) {
    bucket.changed = true
    return { kind: 'granted', atUs: nowUs, startInUs: 0, permit: null }
  }
  const fromUs = nowUs + aheadUs
  const startUs = opensUs(ledger.timeline(limit), bucket, fromUs, weight, request.priority)
  const endUs = endOf(ledger, bucket)
  if (startUs >= endUs) return denial(bucket, Math.max(startUs, endUs + aheadUs), fromUs)
  if (startUs - fromUs > withinUs) return denial(bucket, startUs, fromUs)
  pay(bucket, nowUs, weight, startUs)
  const permit = policy.concurrency === null ? null : takePermits([bucket], request, nowUs)
  return { kind: 'granted', atUs: startUs, startInUs: startUs - nowUs, permit }
}

function acquireFromAll(ledger: Ledger, request: UnitRequest): UnitAnswer {
  const { nowUs } = ledger
  const { aheadUs = 0, withinUs = 0 } = request
  const buckets = bucketsOf(ledger, request)
  if (!Array.isArray(buckets)) return buckets
  const fromUs = nowUs + aheadUs
  const { atUs: startUs, by } = openingOf(ledger, buckets, request, fromUs)
  const over = buckets.find((bucket) => startUs >= endOf(ledger, bucket))
  if (over) return denial(by ?? over, Math.max(startUs, endOf(ledger, over) + aheadUs), fromUs)
  if (by && startUs - fromUs > withinUs) return denial(by, startUs, fromUs)
  for (let i = 0; i < buckets.length; i++) pay(buckets[i] as LedgerBucket, nowUs, request.uses[i]?.weight ?? 1, startUs)
  const permit = takePermits(buckets, request, nowUs)
  return { kind: 'granted', atUs: startUs, startInUs: startUs - nowUs, permit }
}

/** When an override ends: until then the units of a later start cannot be taken by the rules that then hold. */
function endOf(ledger: Ledger, { limit, key }: LedgerBucket): number {
  return ledger.timeline(limit).at(key).endsUs ?? Infinity
}

function pay(bucket: LedgerBucket, nowUs: number, weight: number, startUs: number): void {
  const { policy, state, active } = bucket
  if (policy.mode === 'shadow') chargeShadow(policy, state, active, startUs, weight)
  else charge(policy, state, nowUs, weight, startUs)
  bucket.changed = true
}

/** Takes a permit of each bucket that counts them; null: none does. */
export function takePermits(
  buckets: readonly LedgerBucket[],
  { permit: id, leaseUs }: Pick<UnitRequest, 'permit' | 'leaseUs'>,
  nowUs: number,
): HeldPermit | null {
  const of = buckets.filter(({ policy }) => policy.concurrency !== null)
  if (of.length === 0) return null
  for (const bucket of of) bucket.takePermit(id, nowUs + leaseUs)
  return { id, of: of.map(({ limit, key }) => ({ limit, key })) }
}

/** The denial of a request for a start at `fromUs` that the buckets admit at `atUs`. */
export function denial({ limit, key }: LedgerBucket, atUs: number, fromUs: number): Denied {
  return { kind: 'denied', by: { limit, key }, retryAfterUs: atUs === Infinity ? null : atUs - fromUs }
}
