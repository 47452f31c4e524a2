import { view } from '../../policy/bucket.ts'
import { type Backlog, expectedStartUs } from '../../policy/forecast.ts'
import { NEVER_US } from '../../policy/lane.ts'
import type { Override } from '../overrides.ts'
import type { BucketReport } from '../store.ts'
import { bucketsOf, findBucket, ownBucketsOf, type StoredBucket } from './buckets.ts'
import type { Context } from './context.ts'
import { isPaused, overridesOf, pausedUntilUs } from './override.ts'

/** The buckets of a limit, or the one of a key, as they stand now. */
export function inspect(context: Context, limit: string, key?: string): BucketReport[] {
  const nowUs = context.clock.nowUs()
  const timeline = context.policies.timeline(limit)
  if (!timeline.definition) return []
  if (timeline.definition.policy.scope === 'worker') return ownReports(context, limit, key, nowUs)
  if (key === undefined) return bucketsOf(context, limit, nowUs).map((bucket) => report(context, bucket, nowUs))
  const bucket = findBucket(context, limit, key, nowUs)
  if (bucket) return [report(context, bucket, nowUs)]
  return unused(context, limit, key, nowUs)
}

/** Each worker's own; none that has used the key: as any would find it. */
function ownReports(context: Context, limit: string, key: string | undefined, nowUs: number): BucketReport[] {
  const reports = ownBucketsOf(context, limit, key, nowUs).map((bucket) => ({
    ...report(context, bucket, nowUs),
    worker: bucket.worker,
  }))
  if (reports.length > 0 || key === undefined) return reports
  return unused(context, limit, key, nowUs).map((each) => ({ ...each, worker: null }))
}

function unused(context: Context, limit: string, key: string, nowUs: number): BucketReport[] {
  const timeline = context.policies.timeline(limit)
  const { policy } = timeline.at(key)
  const state = timeline.carry(key, null, 0, nowUs)
  if (!policy || !state) return []
  const { available, debt, capacity } = view(policy, state, 0, nowUs)
  const overrides = overridesOf(context, limit, key)
  return [
    { limit, key, available, debt, capacity, active: 0, waiting: 0, nextStartUs: null, drainedUs: null, overrides },
  ]
}

function report(context: Context, bucket: StoredBucket, nowUs: number): BucketReport {
  const { limit, key, policy, state, active, wakeAtUs } = bucket
  const [waiting] = context.db.get<[number]>(
    'SELECT count(*) FROM lanes l JOIN jobs j ON j.lane = coalesce(l.base, l.id) AND j.state = 1 WHERE l.bucket = ? AND l.state = 2',
    bucket.id,
  ) as [number]
  const overrides = overridesOf(context, limit, key)
  const nextStartUs = nextStartOf(wakeAtUs, overrides, nowUs)
  const seen = policy ? view(policy, state, active, nowUs) : { available: 0, debt: 0, capacity: 0 }
  const drainedUs =
    policy && waiting > 0
      ? expectedStartUs(policy, state, active, nowUs, backlogOf(context, bucket.id, waiting, policy.concurrency))
      : null
  return {
    limit,
    key,
    available: seen.available,
    debt: seen.debt,
    capacity: seen.capacity,
    active,
    waiting,
    nextStartUs,
    drainedUs,
    overrides,
  }
}

/** A look at all weights of a deep backlog would cost too much for a report: the first of them speak for the rest. */
const WEIGHED_AT_MOST = 10_000

function backlogOf(context: Context, bucket: number, waiting: number, concurrency: number | null): Backlog {
  const [mean, least, most] = context.db.get<[number, number, number]>(
    `SELECT avg(units), min(units), max(units) FROM
     (SELECT coalesce(j.weights ->> (SELECT key FROM json_each(l.buckets) WHERE value = l.bucket), 1) AS units
      FROM lanes l CROSS JOIN jobs j ON j.lane = coalesce(l.base, l.id) AND j.state = 1
      WHERE l.bucket = ? AND l.state = 2 LIMIT ${WEIGHED_AT_MOST})`,
    bucket,
  ) as [number, number, number]
  // Of different weights only the units are reckoned, but permits count jobs.
  if (least === most || concurrency !== null) return { count: waiting, weight: least }
  return { count: Math.round(waiting * mean), weight: 1 }
}

function nextStartOf(wakeAtUs: number | null, overrides: readonly Override[], nowUs: number): number | null {
  if (wakeAtUs === null) return null
  if (isPaused(overrides)) return pausedUntilUs(overrides)
  return wakeAtUs === NEVER_US ? null : Math.max(wakeAtUs, nowUs)
}
