import { credit, debit, extendsPenalty, penalize } from '../../policy/limits/bucket.ts'
import { calibrate, setLevel } from '../../policy/limits/calibrate.ts'
import type { CalibrationReport } from '../contract/waits.ts'
import type { StoredBucket } from './stored-bucket.ts'

/**
 * Changes a bucket within one transaction. `no`: nothing changed, and the store writes nothing; `news`: the change is a
 * reason to emit an event.
 */
export type BucketChange = (bucket: StoredBucket, nowUs: number) => 'no' | 'yes' | 'news'

/** Closes a bucket. */
export function closeUntil(untilUs: (nowUs: number) => number): BucketChange {
  return ({ policy, state }, nowUs) => {
    if (!policy) return 'yes'
    const isNews = extendsPenalty(state, untilUs(nowUs), nowUs)
    penalize(policy, state, untilUs(nowUs), nowUs)
    return isNews ? 'news' : 'yes'
  }
}

/** Corrects a charge: positive units are taken, into debt if need be; negative ones return. */
export function correctBy(units: number, chargedAtUs: number): BucketChange {
  return ({ policy, state }, nowUs) => {
    if (policy && units > 0) debit(policy, state, nowUs, units)
    if (policy && units < 0) credit(policy, state, nowUs, -units, chargedAtUs)
    return 'yes'
  }
}

/** Corrects a bucket by the budget that an API reported. */
export function calibrateTo(report: CalibrationReport): BucketChange {
  const isWindow = report.reset === 'window'
  return ({ policy, state }, nowUs) => {
    if (!policy || (isWindow && report.resetUs <= nowUs)) return 'no'
    const directions = { down: !isWindow, up: report.direction === 'both' }
    const leveled = setLevel(policy, state, report.remaining, directions, nowUs)
    const bounded = isWindow ? calibrate(policy, state, report, nowUs) : 'no'
    if (leveled === 'news' || bounded === 'news') return 'news'
    return leveled === 'no' && bounded === 'no' ? 'no' : 'yes'
  }
}
