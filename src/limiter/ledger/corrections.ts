/** Changes of one bucket. Each returns whether it changed the bucket, and whether that is a reason to tell: `news`. */
import { credit, debit, extendsPenalty, newBucket, penalize, view } from '../../policy/limits/bucket.ts'
import { checkCorrection } from '../../policy/limits/limit.ts'
import { calibrate, type Correction, setLevel } from '../../policy/limits/calibrate.ts'
import { opensUs } from '../../policy/limits/opening.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type { BucketReport, BudgetLeft } from '../contract/limiter.ts'
import type { LedgerBucket } from './ledger.ts'

/** A change of one bucket. */
export type BucketCorrection = (bucket: LedgerBucket, nowUs: number) => Correction

/**
 * Corrects a charge: positive units are taken, into debt if need be; negative ones return. The correction throws where
 * the limit counts no units.
 */
export function chargeBy(units: number, atUs: number): BucketCorrection {
  return ({ limit, policy, state }, nowUs) => {
    checkCorrection(limit, policy, units)
    if (units === 0) return 'no'
    if (units > 0) debit(policy, state, nowUs, units)
    else credit(policy, state, nowUs, -units, atUs)
    return 'yes'
  }
}

/** Closes a bucket. */
export function closeFor(forUs: number): BucketCorrection {
  return ({ policy, state }, nowUs) => {
    const isNews = extendsPenalty(state, nowUs + forUs, nowUs)
    penalize(policy, state, nowUs + forUs, nowUs)
    return isNews ? 'news' : 'yes'
  }
}

/** Corrects a bucket by the budget that an API reported. */
export function calibrateTo({ remaining, resetInUs, direction, reset }: BudgetLeft): BucketCorrection {
  const isWindow = reset === 'window'
  return ({ policy, state }, nowUs) => {
    if (isWindow && resetInUs <= 0) return 'no'
    const leveled = setLevel(policy, state, remaining, { down: !isWindow, up: direction === 'both' }, nowUs)
    const bounded = isWindow ? calibrate(policy, state, { remaining, resetUs: nowUs + resetInUs }, nowUs) : 'no'
    if (leveled === 'news' || bounded === 'news') return 'news'
    return leveled === 'no' && bounded === 'no' ? 'no' : 'yes'
  }
}

/** Makes a bucket new again. */
export const renew: BucketCorrection = (bucket, nowUs) => {
  bucket.state = newBucket(bucket.policy, nowUs)
  return 'yes'
}

/** The present state of a bucket. */
export function reportOf(bucket: LedgerBucket, timeline: Timeline, nowUs: number): BucketReport {
  const { policy, state, active, key } = bucket
  const { available, debt, capacity } = view(policy, state, active, nowUs)
  const openUs = opensUs(timeline, bucket, nowUs, 1, null)
  return {
    policy,
    available,
    debt,
    capacity,
    active,
    nextInUs: openUs === Infinity ? null : openUs - nowUs,
    closedForUs: Math.max(0, state.closedUntilUs - nowUs),
    overrides: timeline.overridesOf(key),
  }
}
