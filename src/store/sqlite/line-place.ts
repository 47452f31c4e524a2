import { laneKey } from '../../jobs/lane.ts'
import { freePermits } from '../../policy/rules/concurrency.ts'
import { isFollowed, loadStartUs, ruleStartUs } from '../../policy/limits/start-time.ts'
import { keptBack, belowHeadroom } from '../../policy/limits/headroom.ts'
import { type Contender, startsBefore, unitsInTurn, type WaitingUnits } from '../../policy/admission/wait-order.ts'
import type { TurnState } from '../../policy/admission/turn.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import type { Context } from './context.ts'

/** A waiting job, as the line of one bucket sees it. */
export interface WaitingJob {
  readonly lane: number
  /** What it is ordered by. */
  readonly priority: number
  /** As it was enqueued with it. */
  readonly given: number
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
interface Stretch extends Readonly<TurnState> {
  readonly id: number
  readonly count: number
  /** Where the bucket stands in the lane's list. */
  readonly at: number
}

/** The lanes that take turns before one bucket, and how many of them were found. */
interface Contenders {
  readonly lanes: number
  readonly contenders: Contender[]
}

/** A lane that is asked about by itself. */
const ALONE: TurnState = { turn: 0, taken: 0, share: 1 }

interface Ahead {
  readonly starts: number
  readonly units: number
  readonly least: number
  readonly most: number
  /** The highest priority that one of them was given. */
  readonly highest: number
  /** When the first of them is given up; null: none ever is. */
  readonly givenUpUs: number | null
}

/** A line of different weights is followed job by job through a window so far; beyond it is reckoned by its units. */
const FOLLOWED_AT_MOST = 10_000
const FAIR_AT_MOST = 1000
/** Lanes times priorities: under ageing every job of a deep backlog may have one of its own. */
const PLACES_AT_MOST = 200_000

/** When a job may start as far as one of its buckets decides, from its own lane alone: what else it needs can only make it later. */
export function outlookOfLane(
  context: Context,
  job: WaitingJob,
  bucket: StoredBucket,
  at: number,
  nowUs: number,
): Outlook {
  const found = outlook(context, bucket, [{ id: job.lane, ...ALONE, count: job.ahead, at }], job, nowUs)
  return { ...found, exact: false }
}

/**
 * When a job may start that needs this bucket only: the lanes that need it alone, one for each queue, take turns. Exact while nobody
 * needs it together with other buckets, and nobody ahead may be given up before.
 */
export function outlookOfLine(context: Context, job: WaitingJob, bucket: StoredBucket, nowUs: number): Outlook {
  const alone = (): Outlook =>
    outlook(context, bucket, [{ id: job.lane, ...ALONE, count: job.ahead, at: 0 }], job, nowUs)
  if (bucket.lanes === 1) return alone()
  const { lanes, contenders } = contendersOf(context, bucket)
  const own = contenders.find(({ id }) => id === job.lane)
  const levels = Math.max(...contenders.map((each) => each.levels.length), 0)
  if (!own || levels * contenders.length > PLACES_AT_MOST) return { ...alone(), exact: false }
  const higher = own.levels.filter(({ priority }) => priority > job.priority)
  const before = job.ahead - higher.reduce((sum, { count }) => sum + count, 0)
  const counts = startsBefore(contenders, { lane: job.lane, priority: job.priority, before })
  const stretches = contenders.map(({ id, turn, taken, share }) => ({
    id,
    turn,
    taken,
    share,
    count: counts.get(id) ?? 0,
    at: 0,
  }))
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
  const free = freePermits(policy.concurrency, active) - keptBack(policy, job.given) >= place
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
  bucket: StoredBucket,
  stretches: readonly Stretch[] | null,
  { units, given }: WaitingJob,
  ahead: Ahead,
  nowUs: number,
): { readonly us: number; readonly exact: boolean } {
  if (!bucket.policy) return { us: nowUs, exact: false }
  const { policy, state } = belowHeadroom(
    { policy: bucket.policy, state: bucket.state },
    given,
    Math.max(given, ahead.highest),
  )
  const starts = ahead.starts + (units > 0 ? 1 : 0)
  const least = units > 0 ? Math.min(ahead.least, units) : ahead.least
  const most = Math.max(ahead.most, units)
  const window = policy.rule?.kind === 'sliding' || policy.rule?.kind === 'fixed'
  // Those ahead may use what is kept back from the job itself, each as its window then stands.
  const mixed = window && keptBack(bucket.policy, given) !== keptBack(bucket.policy, Math.max(given, ahead.highest))
  if (starts === 0 || least === most)
    return {
      us: ruleStartUs(policy, state, nowUs, { count: starts, weight: most }),
      exact: !mixed && isFollowed(policy, starts),
    }
  if (window && stretches !== null && starts <= FOLLOWED_AT_MOST) {
    const lanes = stretches.map(({ id, turn, taken, share, count, at }) => ({
      id,
      turn,
      taken,
      share,
      jobs: jobsOf(context, policy, id, count, at),
    }))
    return {
      us: ruleStartUs(policy, state, nowUs, [...unitsInTurn(lanes), units]),
      exact: !mixed && isFollowed(policy, starts),
    }
  }
  // A free retry starts with the job before it, whose units, unless they are more than a burst, make no difference of their own.
  const load = { starts, units: ahead.units + units, last: Math.max(units, 1) }
  return { us: loadStartUs(policy, state, nowUs, load), exact: !window && !policy.spacing }
}

// A number is bound as a REAL, by which JSON would look for a name.
const UNITS =
  'CASE WHEN ? = 1 AND attempt > 0 THEN 0 WHEN weights IS NULL THEN 1 ELSE weights ->> CAST(? AS INTEGER) END'

type SumRow = [
  starts: number,
  units: number | null,
  least: number | null,
  most: number | null,
  highest: number | null,
  givenUp: number | null,
]

/** What the jobs ahead cost together; those that are given up before `keptUs` are left out. */
function sumOf(context: Context, policy: LimitPolicy, stretches: readonly Stretch[], keptUs: number): Ahead {
  let sum: Ahead = { starts: 0, units: 0, least: Infinity, most: 0, highest: -Infinity, givenUpUs: null }
  for (const { id, count, at } of stretches) {
    if (count === 0) continue
    const [starts, units, least, most, highest, givenUpUs] = context.db.get<SumRow>(
      `SELECT count(nullif(units, 0)), sum(units), min(nullif(units, 0)), max(units), max(given), min(due) FROM
       (SELECT ${UNITS} AS units, coalesce(asked, priority) AS given, due FROM jobs WHERE lane = ? AND state = 1 ORDER BY priority DESC, seq LIMIT ?)
       WHERE due IS NULL OR due >= ?`,
      policy.retries === 'free' ? 1 : 0,
      at,
      id,
      count,
      keptUs,
    ) as SumRow
    sum = {
      starts: sum.starts + starts,
      units: sum.units + (units ?? 0),
      least: Math.min(sum.least, least ?? Infinity),
      most: Math.max(sum.most, most ?? 0),
      highest: Math.max(sum.highest, highest ?? -Infinity),
      givenUpUs: givenUpUs === null ? sum.givenUpUs : Math.min(sum.givenUpUs ?? Infinity, givenUpUs),
    }
  }
  return sum
}

function jobsOf(context: Context, policy: LimitPolicy, lane: number, count: number, at: number): WaitingUnits[] {
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

type LaneRow = [id: number, turn: number, taken: number, share: number, head: number]

const TURN = 'id, turn, taken, share, head'

/**
 * The lanes that need this bucket and no other. Those without a fair key are at most one for each queue, so they are found by name and
 * not by a search; of those with one, more than are looked at leave the answer inexact.
 */
function contendersOf(context: Context, { id: bucket, limit, key }: StoredBucket): Contenders {
  const plain = context.db
    .all<[string]>('SELECT name FROM queues')
    .flatMap(([queue]) =>
      context.db.all<LaneRow>(`SELECT ${TURN} FROM lanes WHERE key = ?`, laneKey(queue, [{ limit, key }], null)),
    )
  const fair = context.db.all<LaneRow>(
    `SELECT ${TURN} FROM lanes WHERE buckets = ? AND fair IS NOT NULL LIMIT ${FAIR_AT_MOST}`,
    JSON.stringify([bucket]),
  )
  const found = [...plain, ...fair]
  const contenders = found.map(([id, turn, taken, share, head]) => ({
    id,
    turn,
    taken,
    share,
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
