import type { Statements } from '../../database/postgres.ts'
import { view } from '../../policy/limits/bucket.ts'
import { type Backlog, expectedStartUs } from '../../policy/limits/start-time.ts'
import { belowHeadroom } from '../../policy/limits/headroom.ts'
import { NEVER_US } from '../../policy/admission/lane.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { Override } from '../contract/overrides.ts'
import type { BucketReport } from '../contract/store.ts'
import type { Timelines } from '../shared/timelines.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import { loadBuckets } from './buckets.ts'
import { type Context, readClock } from './context.ts'
import { currentLimits } from './limit-timelines.ts'
import { isPaused, overridesOf, pausedUntilUs } from './override.ts'

/** The buckets of a limit, or the one of a key, as they stand now. */
export async function inspect(context: Context, db: Statements, limit: string, key?: string): Promise<BucketReport[]> {
  const limits = await currentLimits(context, db)
  const instant = await readClock(context, db)
  const { nowUs } = instant
  const timeline = limits.timeline(limit)
  if (!timeline.definition) return []
  const apart = timeline.definition.policy.scope === 'worker'
  const whose = apart ? 'b.worker IN (SELECT id FROM sluice.workers)' : 'b.worker = 0'
  const where = `b.limit_name = $1 AND ($2::text IS NULL OR b.key = $2) AND ${whose} ORDER BY b.worker, b.key`
  const reports: BucketReport[] = []
  for (const bucket of await loadBuckets(db, limits, instant, where, limit, key ?? null))
    reports.push({ ...(await report(db, limits, bucket, nowUs)), ...(apart && { worker: bucket.worker }) })
  if (key === undefined || reports.length > 0) return reports
  const { policy } = timeline.at(key)
  const state = timeline.carry(key, null, 0, nowUs)
  if (!policy || !state) return []
  const { available, debt, capacity } = view(policy, state, 0, nowUs)
  const overrides = overridesOf(limits, limit, key)
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
      // Nobody has used it: as any worker would find it.
      ...(apart && { worker: null }),
    },
  ]
}

async function report(db: Statements, limits: Timelines, bucket: StoredBucket, nowUs: number): Promise<BucketReport> {
  const { limit, key, policy, state, active, wakeAtUs } = bucket
  const [waiting] = (await db.get<[number]>(
    'SELECT count(*) FROM sluice.lanes l JOIN sluice.jobs j ON j.lane = coalesce(l.base, l.key) AND j.state = 1 WHERE l.bucket = $1 AND l.state = 2',
    bucket.id,
  )) as [number]
  const overrides = overridesOf(limits, limit, key)
  const nextStartUs = nextStartOf(wakeAtUs, overrides, nowUs)
  const seen = policy ? view(policy, state, active, nowUs) : { available: 0, debt: 0, capacity: 0 }
  const drainedUs = policy && waiting > 0 ? await drainedUsOf(db, { ...bucket, policy }, waiting, nowUs) : null
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

async function drainedUsOf(
  db: Statements,
  { id, policy, state, active }: StoredBucket & { readonly policy: LimitPolicy },
  waiting: number,
  nowUs: number,
): Promise<number | null> {
  const { backlog, lowest, highest } = await backlogOf(db, id, waiting, policy.concurrency)
  const met = belowHeadroom({ policy, state }, lowest, highest)
  return expectedStartUs(met.policy, met.state, active, nowUs, backlog)
}

interface Weighed {
  readonly backlog: Backlog
  readonly lowest: number
  readonly highest: number
}

async function backlogOf(
  db: Statements,
  bucket: number,
  waiting: number,
  concurrency: number | null,
): Promise<Weighed> {
  const [mean, least, most, lowest, highest] = (await db.get<[number, number, number, number, number]>(
    `SELECT avg(units)::float8, min(units), max(units), min(given), max(given) FROM
     (SELECT coalesce((j.weights::json ->> (array_position(l.buckets, l.bucket) - 1))::int, 1) AS units, coalesce(j.asked, j.priority) AS given
      FROM sluice.lanes l JOIN sluice.jobs j ON j.lane = coalesce(l.base, l.key) AND j.state = 1
      WHERE l.bucket = $1 AND l.state = 2 LIMIT ${WEIGHED_AT_MOST}) s`,
    bucket,
  )) as [number, number, number, number, number]
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
