/**
 * Calls of plain code that wait in one list. Each process decides its own, and to hand a turn over takes longer than a
 * quick start does. So a process takes a handful of starts, and comes again when the others have had theirs.
 */
import type { LimitPolicy } from '../limits/limit.ts'
import { paceOf } from '../limits/pace.ts'
import { type AdmissionSource, needOf } from './admission-source.ts'
import { levelOfHead } from './guaranteed.ts'
import { type Bucket, type Lane, weightOf } from './lane.ts'
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
 * Until when the calls of this claimer may be left in the lists that were read, so that its next claim takes a handful;
 * undefined: it comes for each start.
 */
export function patientUntil(
  waitLists: ReadonlyMap<Bucket, WaitList>,
  shares: Iterable<QueueSlots>,
  source: AdmissionSource,
  nowUs: number,
): number | undefined {
  let untilUs: number | undefined
  for (const { queue, slots } of shares) {
    if (slots === 0 || !source.ofCalls(queue)) continue
    for (const waitList of waitLists.values()) {
      const own = waitList.first((each) => each === queue)
      if (!own) continue
      const restUs = restOf(waitList, own, slots, source)
      const needUs = needOf(source, own, own.heads[own.next] ?? null, waitList.bucket, nowUs)
      // A resume or an override may open a bucket that is closed for longer.
      if (restUs === null || needUs > nowUs + OTHERS_US) return undefined
      untilUs = Math.min(untilUs ?? Infinity, needUs + restUs)
    }
  }
  return untilUs
}

/**
 * How long a lane rests from its next start on. Each lane before it is expected to take as many as this one does then.
 */
function restOf(waitList: WaitList, own: Lane, left: number, source: AdmissionSource): number | null {
  const { policy } = waitList.bucket
  const slackUs = slackOf(policy)
  if (slackUs <= 0) return null
  let before = 0
  for (const queue of waitList.queues()) {
    if (queue === own.queue || source.served(queue) === 'nowhere') continue
    if (!source.ofCalls(queue)) return null
    const first = waitList.first((each) => each === queue)
    if (first && rank(first, own) < 0) before++
  }
  const head = own.heads[own.next]
  const weight = head ? weightOf(head, own.buckets.indexOf(waitList.bucket), waitList.bucket) : 1
  const eachUs = paceOf(policy).intervalUs * weight
  const handfulUs = Math.min(slackUs, (left - 1) * eachUs)
  return handfulUs + Math.min(OTHERS_US, before * (handfulUs + eachUs))
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
