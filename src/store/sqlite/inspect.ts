import { view } from '../../policy/limits/bucket.ts'
import { type Backlog, expectedStartUs } from '../../policy/limits/start-time.ts'
import { belowHeadroom } from '../../policy/limits/headroom.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { Override } from '../contract/overrides.ts'
import type { BucketReport } from '../contract/store.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import { bucketsOf, findBucket, ownBucketsOf } from './buckets.ts'
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
    {
      limit,
      key,
      available,
      debt,
      capacity,
      active: 0,
      waiting: 0,
      nextStartUs: null,
      drainedUs: null,
      ...(policy.headroom && { headroom: policy.headroom }),
      overrides,
    },
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
  const drainedUs = policy && waiting > 0 ? drainedUsOf(context, { ...bucket, policy }, waiting, nowUs) : null
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
    ...(policy?.headroom && { headroom: policy.headroom }),
    overrides,
  }
}

/** A look at all weights of a deep backlog would cost too much for a report: the first of them speak for the rest. */
const WEIGHED_AT_MOST = 10_000

function drainedUsOf(
  context: Context,
  { id, policy, state, active }: StoredBucket & { readonly policy: LimitPolicy },
  waiting: number,
  nowUs: number,
): number | null {
  const { backlog, lowest, highest } = backlogOf(context, id, waiting, policy.concurrency)
  const met = belowHeadroom({ policy, state }, lowest, highest)
  return expectedStartUs(met.policy, met.state, active, nowUs, backlog)
}

interface Weighed {
  readonly backlog: Backlog
  readonly lowest: number
  readonly highest: number
}

function backlogOf(context: Context, bucket: number, waiting: number, concurrency: number | null): Weighed {
  const [mean, least, most, lowest, highest] = context.db.get<[number, number, number, number, number]>(
    `SELECT avg(units), min(units), max(units), min(given), max(given) FROM
     (SELECT coalesce(j.weights ->> (SELECT key FROM json_each(l.buckets) WHERE value = l.bucket), 1) AS units, coalesce(j.asked, j.priority) AS given
      FROM lanes l CROSS JOIN jobs j ON j.lane = coalesce(l.base, l.id) AND j.state = 1
      WHERE l.bucket = ? AND l.state = 2 LIMIT ${WEIGHED_AT_MOST})`,
    bucket,
  ) as [number, number, number, number, number]
  // Of different weights only the units are reckoned, but permits count jobs.
  const even = least === most || concurrency !== null
  const backlog = even ? { count: waiting, weight: least } : { count: Math.round(waiting * mean), weight: 1 }
  return { backlog, lowest, highest }
}

function nextStartOf(wakeAtUs: number | null, overrides: readonly Override[], nowUs: number): number | null {
  if (wakeAtUs === null) return null
  if (isPaused(overrides)) return pausedUntilUs(overrides)
  return wakeAtUs === NEVER_US ? null : Math.max(wakeAtUs, nowUs)
}
