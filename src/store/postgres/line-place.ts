import type { Statements } from '../../database/postgres.ts'
import { freePermits } from '../../policy/rules/concurrency.ts'
import { isFollowed, loadStartUs, ruleStartUs } from '../../policy/limits/start-time.ts'
import { keptBack, belowHeadroom } from '../../policy/limits/headroom.ts'
import { type Contender, startsBefore, unitsInTurn, type WaitingUnits } from '../../policy/admission/wait-order.ts'
import type { TurnState } from '../../policy/admission/turn.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'

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
/** Lanes times priorities: under ageing every job of a deep backlog may have one of its own. */
const PLACES_AT_MOST = 200_000

/** When a job may start as far as one of its buckets decides, from its own lane alone: what else it needs can only make it later. */
export async function outlookOfLane(
  db: Statements,
  job: WaitingJob,
  bucket: StoredBucket,
  at: number,
  nowUs: number,
): Promise<Outlook> {
  const found = await outlook(db, bucket, [{ id: job.lane, ...ALONE, count: job.ahead, at }], job, nowUs)
  return { ...found, exact: false }
}

/**
 * When a job may start that needs this bucket only: the lanes that need it alone, one for each queue, take turns. Exact while nobody
 * needs it together with other buckets, and nobody ahead may be given up before.
 */
export async function outlookOfLine(
  db: Statements,
  job: WaitingJob,
  bucket: StoredBucket,
  nowUs: number,
): Promise<Outlook> {
  const alone = (): Promise<Outlook> =>
    outlook(db, bucket, [{ id: job.lane, ...ALONE, count: job.ahead, at: 0 }], job, nowUs)
  if (bucket.lanes === 1) return alone()
  const { lanes, contenders } = await contendersOf(db, bucket)
  const own = contenders.find(({ id }) => id === job.lane)
  const levels = Math.max(...contenders.map((each) => each.levels.length), 0)
  if (!own || levels * contenders.length > PLACES_AT_MOST) return { ...(await alone()), exact: false }
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
  const found = await outlook(db, bucket, stretches, job, nowUs)
  return { ...found, exact: found.exact && lanes === bucket.lanes }
}

async function outlook(
  db: Statements,
  bucket: StoredBucket,
  stretches: readonly Stretch[],
  job: WaitingJob,
  nowUs: number,
): Promise<Outlook> {
  const { policy, active } = bucket
  const place = 1 + stretches.reduce((sum, { count }) => sum + count, 0)
  if (!policy) return { place, startUs: null, exact: false }
  const free = freePermits(policy.concurrency, active) - keptBack(policy, job.given) >= place
  if (!free && policy.rule === null) return { place, startUs: null, exact: false }
  const ahead = await sumOf(db, policy, stretches, 0)
  const found = await startUs(db, bucket, stretches, job, ahead, nowUs)
  if (ahead.givenUpUs === null || ahead.givenUpUs >= found.us)
    return { place, startUs: found.us, exact: found.exact && free }
  // Who may be given up before the job's turn may make room for it: without them the instant is too early rather than too late.
  const certain = await sumOf(db, policy, stretches, found.us)
  return { place, startUs: (await startUs(db, bucket, null, job, certain, nowUs)).us, exact: false }
}

/** @param stretches null: only sums are to be gone by. */
async function startUs(
  db: Statements,
  bucket: StoredBucket,
  stretches: readonly Stretch[] | null,
  { units, given }: WaitingJob,
  ahead: Ahead,
  nowUs: number,
): Promise<{ readonly us: number; readonly exact: boolean }> {
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
    const lanes: (TurnState & { id: number; jobs: WaitingUnits[] })[] = []
    for (const { id, turn, taken, share, count, at } of stretches)
      lanes.push({ id, turn, taken, share, jobs: await jobsOf(db, policy, id, count, at) })
    return {
      us: ruleStartUs(policy, state, nowUs, [...unitsInTurn(lanes), units]),
      exact: !mixed && isFollowed(policy, starts),
    }
  }
  // A free retry starts with the job before it, whose units, unless they are more than a burst, make no difference of their own.
  const load = { starts, units: ahead.units + units, last: Math.max(units, 1) }
  return { us: loadStartUs(policy, state, nowUs, load), exact: !window && !policy.spacing }
}

const UNITS =
  'CASE WHEN $1::boolean AND attempt > 0 THEN 0 WHEN weights IS NULL THEN 1 ELSE (weights::json ->> $2::int)::int END'
const OF_LANE = 'lane = (SELECT key FROM sluice.lanes WHERE id = $3) AND state = 1 ORDER BY priority DESC, seq LIMIT $4'

type SumRow = [
  starts: number,
  units: number | null,
  least: number | null,
  most: number | null,
  highest: number | null,
  givenUp: number | null,
]

/** What the jobs ahead cost together; those that are given up before `keptUs` are left out. */
async function sumOf(
  db: Statements,
  policy: LimitPolicy,
  stretches: readonly Stretch[],
  keptUs: number,
): Promise<Ahead> {
  let sum: Ahead = { starts: 0, units: 0, least: Infinity, most: 0, highest: -Infinity, givenUpUs: null }
  for (const { id, count, at } of stretches) {
    if (count === 0) continue
    const [starts, units, least, most, highest, givenUpUs] = (await db.get<SumRow>(
      `SELECT count(nullif(units, 0)), sum(units)::bigint, min(nullif(units, 0)), max(units), max(given), min(due) FROM
       (SELECT ${UNITS} AS units, coalesce(asked, priority)::int AS given, due FROM sluice.jobs WHERE ${OF_LANE}) s WHERE due IS NULL OR due >= $5`,
      policy.retries === 'free',
      at,
      id,
      count,
      keptUs,
    )) as SumRow
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

async function jobsOf(
  db: Statements,
  policy: LimitPolicy,
  lane: number,
  count: number,
  at: number,
): Promise<WaitingUnits[]> {
  const rows = await db.all<[seq: number, priority: number, units: number]>(
    `SELECT seq, priority, ${UNITS} FROM sluice.jobs WHERE ${OF_LANE}`,
    policy.retries === 'free',
    at,
    lane,
    count,
  )
  return rows.map(([seq, priority, units]) => ({ seq, priority, units }))
}

/** The lanes that need this bucket and no other, empty ones too: the bucket counts them. More than are looked at leave the answer inexact. */
async function contendersOf(db: Statements, { id: bucket }: StoredBucket): Promise<Contenders> {
  const found = await db.all<[id: number, turn: number, taken: number, share: number, head: number, key: string]>(
    'SELECT id, turn, taken, share, head, key FROM sluice.lanes WHERE buckets = ARRAY[$1::bigint] ORDER BY state = 0, id LIMIT 1000',
    bucket,
  )
  const contenders: Contender[] = []
  for (const [id, turn, taken, share, head, key] of found) {
    const levels = await db.all<[number, number]>(
      'SELECT priority, count(*) FROM sluice.jobs WHERE lane = $1 AND state = 1 GROUP BY priority ORDER BY priority DESC',
      key,
    )
    contenders.push({ id, turn, taken, share, head, levels: levels.map(([priority, count]) => ({ priority, count })) })
  }
  return { lanes: found.length, contenders }
}
