/**
 * Calls of plain code that wait in one list. Each process decides its own, and to hand a turn over takes longer than a
 * quick start does. So a process takes a handful of starts, and comes again when the others have had theirs.
 */
import { couldGrant } from '../limits/bucket.ts'
import type { LimitPolicy } from '../limits/limit.ts'
import { paceOf } from '../limits/pace.ts'
import { type AdmissionSource, needOf } from './admission-source.ts'
import { levelOfHead } from './guaranteed.ts'
import { type Bucket, deniedUntilUs, type Lane, weightOf } from './lane.ts'
import type { QueueSlots } from './queue-slots.ts'
import { rank } from './turn-order.ts'
import type { WaitList } from './wait-list.ts'

/** Starts of a limit are quick if they come at this interval or a shorter one. */
const QUICK_US = 10_000
/** A process may go before another one whose last start was at most so much earlier than its own. */
const HANDFUL_US = 500_000
/** The longest time that a process leaves to others. */
const OTHERS_US = 250_000
/** The part of a sliding window that may pass unused. */
const WINDOW_PART = 100

/** Whether a lane of calls may start before the calls of another process whose turn it is. */
export function mayPrecede(lane: Lane, other: Lane, { policy }: Bucket): boolean {
  return isQuick(policy) && levelOfHead(lane) === levelOfHead(other) && lane.turn - other.turn <= HANDFUL_US
}

/**
 * Whether a newcomer may start before the calls of another process that have waited since `turn`: the bucket has units
 * to spare, so that these calls only wait for their process.
 */
export function mayPass(turn: number, bucket: Bucket, nowUs: number): boolean {
  return slackOf(bucket.policy) > 0 && nowUs - turn <= HANDFUL_US && isAmple(bucket, nowUs)
}

/**
 * Until when the calls of this claimer may be left in the lists that were read, so that its next claim takes a handful;
 * undefined: it comes for each start. Calls that come after its last ones were granted are left as long.
 */
export function patientUntil(
  waitLists: ReadonlyMap<Bucket, WaitList>,
  shares: Iterable<QueueSlots>,
  source: AdmissionSource,
  nowUs: number,
): number | undefined {
  let untilUs: number | undefined
  for (const { queue, slots } of shares) {
    if (!source.ofCalls(queue)) continue
    for (const waitList of waitLists.values()) {
      const { bucket } = waitList
      const own = slots > 0 ? waitList.first((each) => each === queue) : null
      if (!own && (bucket.granted === 0 || waitList.empty)) continue
      const next = own ? waitingIn(own, bucket, slots, source, nowUs) : comingTo(bucket, nowUs)
      // A resume or an override may open a bucket that is closed for longer.
      if (!next || !isOfHandfuls(waitList, source) || next.needUs > nowUs + OTHERS_US) return undefined
      untilUs = Math.min(untilUs ?? Infinity, next.needUs + restOf(waitList, queue, own, next, source))
    }
  }
  return untilUs
}

/** Whether only calls wait in a list, and their processes take handfuls: each comes for them at a time of its own. */
export function isOfHandfuls(waitList: WaitList, source: AdmissionSource): boolean {
  if (slackOf(waitList.bucket.policy) <= 0) return false
  for (const queue of waitList.queues()) if (source.served(queue) !== 'nowhere' && !source.ofCalls(queue)) return false
  return true
}

/** Calls of one process, by when their bucket admits the first of them. */
interface Handful {
  readonly count: number
  readonly weight: number
  readonly needUs: number
}

function waitingIn(own: Lane, bucket: Bucket, count: number, source: AdmissionSource, nowUs: number): Handful {
  const head = own.heads[own.next] ?? null
  const weight = head ? weightOf(head, own.buckets.indexOf(bucket), bucket) : 1
  return { count, weight, needUs: needOf(source, own, head, bucket, nowUs) }
}

/** Those that follow the calls just granted, if they are as many; null: they ask by themselves, since units are left. */
function comingTo(bucket: Bucket, nowUs: number): Handful | null {
  if (isAmple(bucket, nowUs)) return null
  const weight = Math.ceil(bucket.grantedUnits / bucket.granted)
  return { count: bucket.granted, weight, needUs: deniedUntilUs(bucket, weight, nowUs, null) ?? nowUs }
}

/**
 * How long the calls of a queue rest from their next start on. Each lane before theirs is expected to take as many as
 * they do then. @param own their lane; null: they come behind all others
 */
function restOf(
  waitList: WaitList,
  of: number,
  own: Lane | null,
  { count, weight }: Handful,
  source: AdmissionSource,
): number {
  const { policy } = waitList.bucket
  let before = 0
  for (const queue of waitList.queues()) {
    if (queue === of || source.served(queue) === 'nowhere') continue
    const first = waitList.first((each) => each === queue)
    if (first && (!own || rank(first, own) < 0)) before++
  }
  const eachUs = paceOf(policy).intervalUs * weight
  const handfulUs = Math.min(slackOf(policy), (count - 1) * eachUs)
  return handfulUs + Math.min(OTHERS_US, before * (handfulUs + eachUs))
}

/** Whether so many units of a bucket are left that its processes are slower than it. */
function isAmple({ policy, state, active }: Bucket, nowUs: number): boolean {
  return policy !== null && couldGrant(policy, state, active, nowUs) * paceOf(policy).intervalUs >= slackOf(policy)
}

function isQuick(policy: LimitPolicy | null): boolean {
  return policy !== null && paceOf(policy).intervalUs <= QUICK_US
}

/** How long the units of a bucket may lie unused without a loss worth the name. */
function slackOf(policy: LimitPolicy | null): number {
  if (!isQuick(policy) || policy?.spacing || policy?.concurrency) return 0
  if (policy?.rule?.kind === 'sliding') return policy.rule.periodUs / WINDOW_PART
  return policy?.rule?.kind === 'rate' ? ((policy.rule.burst - 1) * paceOf(policy).intervalUs) / 2 : 0
}
