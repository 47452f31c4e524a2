import { startsBefore, unitsInTurn, type WaitingUnits } from '../../policy/admission/wait-order.ts'
import type { TurnState } from '../../policy/admission/turn.ts'
import { keptBack, belowHeadroom } from '../../policy/limits/headroom.ts'
import { freePermits, type LimitPolicy } from '../../policy/limits/limit.ts'
import { isFollowed, loadStartUs, ruleStartUs } from '../../policy/limits/start-time.ts'
import { costOf, jobsOf, type LaneFront, turnsAt } from './lane-fronts.ts'
import type { Reading } from './reading.ts'
import type { Access } from './sql.ts'
import type { StoredBucket } from './stored-bucket.ts'

/** A waiting job in the wait list of one bucket. */
export interface WaitingJob {
  readonly lane: number
  /** Its level, by which its lane orders it. */
  readonly priority: number
  /** The given priority. */
  readonly given: number
  /** Jobs before it in its lane. */
  readonly ahead: number
  /** Its cost in the bucket; 0 for a free retry. */
  readonly units: number
}

/** The outlook of a waiting job in one bucket. */
export interface Outlook {
  /** Its place among all jobs whose order this bucket alone decides, from 1. */
  readonly place: number
  /** Null: a permit has to return first. */
  readonly startUs: number | null
  /** False: the job starts no sooner, and perhaps later. */
  readonly exact: boolean
}

/** The turn state of a single lane. */
const ALONE: TurnState = { turn: 0, taken: 0, share: 1 }
const NONE_AHEAD = { starts: 0, units: 0, least: Infinity, most: 0, highest: -Infinity, givenUpUs: Infinity }

/**
 * The most jobs of different weights that the simulation follows one by one through a window; beyond it, it adds up
 * their units.
 */
const FOLLOWED_AT_MOST = 10_000
/** Lanes times priorities: under ageing every job of a deep backlog may have its own priority. */
const PLACES_AT_MOST = 200_000

/** The possible start of a job by one bucket and its own lane; other needs can only delay it. */
export function* outlookOfLane(
  access: Access,
  job: WaitingJob,
  bucket: StoredBucket,
  at: number,
  nowUs: number,
): Reading<Outlook> {
  const found = yield* outlook(access, bucket, [{ id: job.lane, ...ALONE, count: job.ahead, at }], job, nowUs)
  return { ...found, exact: false }
}

/**
 * The possible start of a job that needs only this bucket: the lanes that need it alone take turns. It is exact while
 * none of them needs anything else and no job ahead may be discarded before.
 */
export function* outlookOfWaitList(
  access: Access,
  job: WaitingJob,
  bucket: StoredBucket,
  nowUs: number,
): Reading<Outlook> {
  const own: LaneFront = { id: job.lane, ...ALONE, count: job.ahead, at: 0 }
  if (bucket.lanes === 1) return yield* outlook(access, bucket, [own], job, nowUs)
  const { lanes, areAll } = yield* turnsAt(access, bucket, nowUs)
  const lane = lanes.find(({ id }) => id === job.lane)
  const levels = Math.max(...lanes.map((each) => each.levels.length), 0)
  if (!lane || levels * lanes.length > PLACES_AT_MOST) return yield* outlookOfLane(access, job, bucket, 0, nowUs)
  const higher = lane.levels.filter(({ priority }) => priority > job.priority)
  const before = job.ahead - higher.reduce((sum, { count }) => sum + count, 0)
  const frontsOf = (those: typeof lanes): LaneFront[] => {
    const counts = startsBefore(those, { lane: job.lane, priority: job.priority, before })
    return those.map((each) => ({ ...each, count: counts.get(each.id) ?? 0, at: 0 }))
  }
  const certain = lanes.filter(({ id, isPassed }) => id === job.lane || !isPassed)
  const found = yield* outlook(access, bucket, frontsOf(certain), job, nowUs)
  return {
    ...found,
    place: placeBehind(frontsOf(lanes)),
    exact: found.exact && areAll && certain.length === lanes.length,
  }
}

function placeBehind(fronts: readonly LaneFront[]): number {
  return 1 + fronts.reduce((sum, { count }) => sum + count, 0)
}

function* outlook(
  access: Access,
  bucket: StoredBucket,
  fronts: readonly LaneFront[],
  job: WaitingJob,
  nowUs: number,
): Reading<Outlook> {
  const { policy, active } = bucket
  const place = placeBehind(fronts)
  if (!policy) return { place, startUs: null, exact: false }
  if (policy.mode === 'shadow') return { place, startUs: nowUs, exact: false }
  const free = freePermits(policy.concurrency, active) - keptBack(policy, job.given) >= place
  if (!free && policy.rule === null) return { place, startUs: null, exact: false }
  const limited = { policy, state: bucket.state }
  const ahead = yield* costAhead(access, policy, fronts, 0)
  const found = yield* startUs(access, limited, fronts, job, ahead, nowUs)
  if (ahead.givenUpUs >= found.us) return { place, startUs: found.us, exact: found.exact && free }
  // A discarded job ahead may make room. The instant without those jobs is a lower bound. One of its own lane also
  // moves this job to an earlier turn, which those of other lanes may be behind.
  const own = fronts.filter(({ id }) => id === job.lane)
  const { givenUpUs } = yield* costAhead(access, policy, own, 0)
  const certain = yield* costAhead(access, policy, givenUpUs < found.us ? own : fronts, found.us)
  return { place, startUs: (yield* startUs(access, limited, null, job, certain, nowUs)).us, exact: false }
}

/** @param fronts null: sums alone give the start */
function* startUs(
  access: Access,
  bucket: { readonly policy: LimitPolicy; readonly state: StoredBucket['state'] },
  fronts: readonly LaneFront[] | null,
  { units, given }: WaitingJob,
  ahead: typeof NONE_AHEAD,
  nowUs: number,
): Reading<{ readonly us: number; readonly exact: boolean }> {
  const highest = Math.max(given, ahead.highest)
  const { policy, state } = belowHeadroom(bucket, given, highest)
  const starts = ahead.starts + (units > 0 ? 1 : 0)
  const least = units > 0 ? Math.min(ahead.least, units) : ahead.least
  const most = Math.max(ahead.most, units)
  const window = policy.rule?.kind === 'sliding' || policy.rule?.kind === 'fixed'
  // The jobs ahead may use the headroom kept from this job, depending on their window's state.
  const mixed = window && keptBack(bucket.policy, given) !== keptBack(bucket.policy, highest)
  const exact = !mixed && isFollowed(policy, starts)
  if (starts === 0 || least === most)
    return { us: ruleStartUs(policy, state, nowUs, { count: starts, weight: most }), exact }
  if (window && fronts !== null && starts <= FOLLOWED_AT_MOST) {
    const lanes: (LaneFront & { readonly jobs: readonly WaitingUnits[] })[] = []
    for (const front of fronts) lanes.push({ ...front, jobs: yield* jobsOf(access, front, policy.retries === 'free') })
    return { us: ruleStartUs(policy, state, nowUs, [...unitsInTurn(lanes), units]), exact }
  }
  // A free retry starts with the job before it, whose units make no difference of their own unless they exceed a burst.
  const load = { starts, units: ahead.units + units, last: Math.max(units, 1) }
  return { us: loadStartUs(policy, state, nowUs, load), exact: !window && !policy.spacing }
}

function* costAhead(
  access: Access,
  policy: LimitPolicy,
  fronts: readonly LaneFront[],
  keptUs: number,
): Reading<typeof NONE_AHEAD> {
  let sum = NONE_AHEAD
  for (const front of fronts) {
    if (front.count === 0) continue
    const row = yield* costOf(access, front, policy.retries === 'free', keptUs)
    const [starts, units, least, most, highest, givenUpUs] = row
    sum = {
      starts: sum.starts + starts,
      units: sum.units + (units ?? 0),
      least: Math.min(sum.least, least ?? Infinity),
      most: Math.max(sum.most, most ?? 0),
      highest: Math.max(sum.highest, highest ?? -Infinity),
      givenUpUs: Math.min(sum.givenUpUs, givenUpUs ?? Infinity),
    }
  }
  return sum
}
