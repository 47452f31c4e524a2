import { laneKey } from '../../jobs/lane.ts'
import { freePermits } from '../../policy/concurrency.ts'
import { loadStartUs, ruleStartUs } from '../../policy/forecast.ts'
import { type Contender, startsBefore, unitsInTurn, type Waiting } from '../../policy/line-order.ts'
import type { LimitPolicy } from '../../policy/limit.ts'
import type { StoredBucket } from './buckets.ts'
import type { Context } from './context.ts'

/** A waiting job, as the line of one bucket sees it. */
export interface WaitingJob {
  readonly lane: number
  readonly priority: number
  /** Jobs before it in its lane. */
  readonly ahead: number
  /** Units that it costs in the bucket; 0 for a retry that is free. */
  readonly units: number
}

/** What one bucket says of a waiting job. */
export interface Outlook {
  /** Its place among all jobs whose order this bucket alone decides, from 1. */
  readonly place: number
  /** Null: only a permit that returns can tell. */
  readonly startUs: number | null
  /** False: the job starts no sooner, and perhaps later. */
  readonly exact: boolean
}

/** The first jobs of one lane: those that start before the job that is asked for. */
interface Stretch {
  readonly id: number
  readonly turn: number
  readonly count: number
  /** Where the bucket stands in the lane's list. */
  readonly at: number
}

interface Ahead {
  readonly starts: number
  readonly units: number
  readonly least: number
  readonly most: number
  /** When the first of them is given up; null: none ever is. */
  readonly givenUpUs: number | null
}

/** A line of different weights is followed job by job through a window so far; beyond it is reckoned by its units. */
const FOLLOWED_AT_MOST = 10_000

/** When a job may start as far as one of its buckets decides, from its own lane alone: what else it needs can only make it later. */
export function outlookOfLane(
  context: Context,
  job: WaitingJob,
  bucket: StoredBucket,
  at: number,
  nowUs: number,
): Outlook {
  const found = outlook(context, bucket, [{ id: job.lane, turn: 0, count: job.ahead, at }], job, nowUs)
  return { ...found, exact: false }
}

/**
 * When a job may start that needs this bucket only: the lanes that need it alone, one for each queue, take turns. Exact while nobody
 * needs it together with other buckets, and nobody ahead may be given up before.
 */
export function outlookOfLine(context: Context, job: WaitingJob, bucket: StoredBucket, nowUs: number): Outlook {
  if (bucket.lanes === 1)
    return outlook(context, bucket, [{ id: job.lane, turn: 0, count: job.ahead, at: 0 }], job, nowUs)
  const { lanes, contenders } = contendersOf(context, bucket)
  const higher = contenders.find(({ id }) => id === job.lane)?.levels.filter(({ priority }) => priority > job.priority)
  const before = job.ahead - (higher ?? []).reduce((sum, { count }) => sum + count, 0)
  const counts = startsBefore(contenders, { lane: job.lane, priority: job.priority, before })
  const stretches = contenders.map(({ id, turn }) => ({ id, turn, count: counts.get(id) ?? 0, at: 0 }))
  const found = outlook(context, bucket, stretches, job, nowUs)
  return { ...found, exact: found.exact && lanes === bucket.lanes }
}

function outlook(
  context: Context,
  bucket: StoredBucket,
  stretches: readonly Stretch[],
  job: WaitingJob,
  nowUs: number,
): Outlook {
  const { policy, active } = bucket
  const place = 1 + stretches.reduce((sum, { count }) => sum + count, 0)
  if (!policy) return { place, startUs: null, exact: false }
  const free = freePermits(policy.concurrency, active) >= place
  if (!free && policy.rule === null) return { place, startUs: null, exact: false }
  const ahead = sumOf(context, policy, stretches, 0)
  const found = startUs(context, bucket, stretches, job, ahead, nowUs)
  if (ahead.givenUpUs === null || ahead.givenUpUs >= found.us)
    return { place, startUs: found.us, exact: found.exact && free }
  // Who may be given up before the job's turn may make room for it: without them the instant is too early rather than too late.
  const certain = sumOf(context, policy, stretches, found.us)
  return { place, startUs: startUs(context, bucket, null, job, certain, nowUs).us, exact: false }
}

/** @param stretches null: only sums are to be gone by. */
function startUs(
  context: Context,
  { policy, state }: StoredBucket,
  stretches: readonly Stretch[] | null,
  { units }: WaitingJob,
  ahead: Ahead,
  nowUs: number,
): { readonly us: number; readonly exact: boolean } {
  if (!policy) return { us: nowUs, exact: false }
  const starts = ahead.starts + (units > 0 ? 1 : 0)
  const least = units > 0 ? Math.min(ahead.least, units) : ahead.least
  const most = Math.max(ahead.most, units)
  if (starts === 0 || least === most)
    return { us: ruleStartUs(policy, state, nowUs, { count: starts, weight: most }), exact: true }
  const window = policy.rule?.kind === 'sliding' || policy.rule?.kind === 'fixed'
  if (window && stretches !== null && starts <= FOLLOWED_AT_MOST) {
    const lanes = stretches.map(({ id, turn, count, at }) => ({
      id,
      turn,
      jobs: jobsOf(context, policy, id, count, at),
    }))
    return { us: ruleStartUs(policy, state, nowUs, [...unitsInTurn(lanes), units]), exact: true }
  }
  // A free retry starts with the job before it, whose units, unless they are more than a burst, make no difference of their own.
  const load = { starts, units: ahead.units + units, last: Math.max(units, 1) }
  return { us: loadStartUs(policy, state, nowUs, load), exact: !window }
}

// A number is bound as a REAL, by which JSON would look for a name.
const UNITS =
  'CASE WHEN ? = 1 AND attempt > 0 THEN 0 WHEN weights IS NULL THEN 1 ELSE weights ->> CAST(? AS INTEGER) END'

/** What the jobs ahead cost together; those that are given up before `keptUs` are left out. */
function sumOf(context: Context, policy: LimitPolicy, stretches: readonly Stretch[], keptUs: number): Ahead {
  let sum: Ahead = { starts: 0, units: 0, least: Infinity, most: 0, givenUpUs: null }
  for (const { id, count, at } of stretches) {
    if (count === 0) continue
    const [starts, units, least, most, givenUpUs] = context.db.get<
      [number, number | null, number | null, number | null, number | null]
    >(
      `SELECT count(nullif(units, 0)), sum(units), min(nullif(units, 0)), max(units), min(due) FROM
       (SELECT ${UNITS} AS units, due FROM jobs WHERE lane = ? AND state = 1 ORDER BY priority DESC, seq LIMIT ?)
       WHERE due IS NULL OR due >= ?`,
      policy.retries === 'free' ? 1 : 0,
      at,
      id,
      count,
      keptUs,
    ) as [number, number | null, number | null, number | null, number | null]
    sum = {
      starts: sum.starts + starts,
      units: sum.units + (units ?? 0),
      least: Math.min(sum.least, least ?? Infinity),
      most: Math.max(sum.most, most ?? 0),
      givenUpUs: givenUpUs === null ? sum.givenUpUs : Math.min(sum.givenUpUs ?? Infinity, givenUpUs),
    }
  }
  return sum
}

function jobsOf(context: Context, policy: LimitPolicy, lane: number, count: number, at: number): Waiting[] {
  return context.db
    .all<[seq: number, priority: number, units: number]>(
      `SELECT seq, priority, ${UNITS} FROM jobs WHERE lane = ? AND state = 1 ORDER BY priority DESC, seq LIMIT ?`,
      policy.retries === 'free' ? 1 : 0,
      at,
      lane,
      count,
    )
    .map(([seq, priority, units]) => ({ seq, priority, units }))
}

/** The lanes that need this bucket and no other: at most one for each queue, so they are found by name and not by a search. */
function contendersOf(context: Context, { limit, key }: StoredBucket): { lanes: number; contenders: Contender[] } {
  const found = context.db
    .all<[string]>('SELECT name FROM queues')
    .flatMap(([queue]) =>
      context.db.all<[id: number, turn: number, head: number]>(
        'SELECT id, turn, head FROM lanes WHERE key = ?',
        laneKey(queue, [{ limit, key }]),
      ),
    )
  const contenders = found.map(([id, turn, head]) => ({
    id,
    turn,
    head,
    levels: context.db
      .all<[number, number]>(
        'SELECT priority, count(*) FROM jobs WHERE lane = ? AND state = 1 GROUP BY priority ORDER BY priority DESC',
        id,
      )
      .map(([priority, count]) => ({ priority, count })),
  }))
  return { lanes: found.length, contenders }
}
