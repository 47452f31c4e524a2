import type { Admission } from '../../policy/admission/admission.ts'
import type { AdmissionSource } from '../../policy/admission/admission-source.ts'
import { patientUntil } from '../../policy/admission/calls.ts'
import { type Bucket, type Lane, NEVER_US } from '../../policy/admission/lane.ts'
import { wakesOthers } from '../../policy/admission/retime.ts'
import type { QueueSlots } from '../../policy/admission/queue-slots.ts'
import type { ClosedOn } from './refused-head.ts'
import type { Recall } from '../contract/recall.ts'
import type { Claim } from '../contract/store.ts'
import type { Released, Sustained } from '../contract/waits.ts'
import type { StoredBucket } from './stored-bucket.ts'
import { namesOf } from './stored-bucket.ts'

/** A finished decision, as its store keeps it. */
interface Decided extends AdmissionSource {
  readonly nowUs: number
  readonly buckets: ReadonlyMap<number, StoredBucket>
  /** The queues that it served. */
  readonly shares: ReadonlyMap<number, QueueSlots>
  /** The bucket in whose wait list the lane stood before; null: in none. */
  waitedOn(lane: Lane): StoredBucket | null
}

/** A claim's events about buckets that jobs wait for. */
export interface Throttling extends Pick<Recall, 'wakesOthers'>, Pick<Claim, 'patientUntilUs'> {
  readonly closed: readonly ClosedOn[]
  readonly sustained: readonly Sustained[]
  readonly released: readonly Released[]
}

/**
 * Counts the jobs that had waited for a bucket, and selects the buckets to report. Each event occurs once over the
 * fleet: the bucket's row keeps the count and the time of its last event, and the reporting claim writes them.
 *
 * A job is counted when it starts, so that waiting writes nothing. The lanes' heads at the time the bucket closes are
 * reported at once, and are not counted again.
 */
export function throttling(
  nameOf: (queue: number) => string,
  decision: Decided,
  admission: Admission,
  eventWindowUs: number,
): Throttling {
  const lastUs = new Map<Bucket, number>()
  for (const { lane, charged, startUs } of admission.grants) {
    const bucket = lane && decision.waitedOn(lane)
    if (bucket) count(bucket, bucket.deferred + 1, bucket.toldUs)
    for (const each of charged) lastUs.set(each.bucket, Math.max(lastUs.get(each.bucket) ?? 0, startUs))
  }
  const closed = newlyClosed(nameOf, admission)
  const sustained: Sustained[] = []
  const released: Released[] = []
  for (const bucket of decision.buckets.values()) {
    const { wokeAtUs, wakeAtUs, deferred } = bucket
    // Starts that were granted ahead count from their instants, and so do these events.
    const atUs = Math.max(decision.nowUs, lastUs.get(bucket) ?? 0)
    // A bucket that only a queue as a whole waits for had no event.
    if (wokeAtUs === null || bucket.toldUs === null) continue
    if (wakeAtUs === null) {
      released.push({ ...namesOf(bucket), deferred: Math.max(0, deferred), atUs })
      count(bucket, 0, null)
    } else if (deferred > 0 && atUs - (bucket.toldUs ?? 0) >= eventWindowUs) {
      sustained.push({ ...namesOf(bucket), deferred, nextAtUs: instantOf(wakeAtUs), atUs })
      count(bucket, 0, atUs)
    }
  }
  const others = wakesOthers(admission, decision)
  const patientUntilUs = patientUntil(admission.waitLists, decision.shares.values(), decision, decision.nowUs)
  return {
    closed,
    sustained,
    released,
    ...(others && { wakesOthers: true }),
    ...(patientUntilUs !== undefined && { patientUntilUs }),
  }
}

/** A bucket of a held start, with its state as stored. */
export type HeldBucket = readonly [limit: string, key: string, state: string | null]

/**
 * The changes in a claim's answer, by which held starts go back.
 * @param held the buckets of the claimer's held starts. The decision has not read these if nothing waits for them, or if
 * another claim has timed what waits.
 */
export function recallOf(
  generation: number,
  { buckets, nowUs }: Pick<Decided, 'buckets' | 'nowUs'>,
  pausedQueues: readonly string[],
  held: readonly HeldBucket[],
): Recall {
  const read = [...buckets.values()].filter(({ state }) => state.closedUntilUs > nowUs)
  const others = held.filter(([, , state]) => state !== null && closedUntilUs(state) > nowUs)
  const closed = [...read, ...others.map(([limit, key]) => ({ limit, key }))]
  return { generation, closedNow: closed.map(({ limit, key }) => ({ limit, key })), pausedQueues }
}

/** Of the text alone: a state that cannot be read is for the decision that needs it. */
function closedUntilUs(state: string): number {
  return Number(/^\[-?\d+,(\d+)/.exec(state)?.[1] ?? 0)
}

/** Buckets in whose wait list a first lane now stands. */
function newlyClosed(nameOf: (queue: number) => string, admission: Admission): ClosedOn[] {
  const closed: ClosedOn[] = []
  for (const line of admission.waitLists.values()) {
    const bucket = line.bucket as StoredBucket
    if (bucket.toldUs !== null || bucket.wakeAtUs === null) continue
    const [lane] = line.joined
    if (!lane) continue
    closed.push({
      ...namesOf(bucket),
      seq: lane.head,
      bucket: bucket.id,
      queue: nameOf(lane.queue),
      wanted: lane.heads[lane.next]?.weights?.[lane.buckets.indexOf(bucket)] ?? 1,
      granted: bucket.granted,
      grantedUnits: bucket.grantedUnits,
      deferred: line.joined.size,
      waiting: line.joined.size,
      nextAtUs: instantOf(bucket.wakeAtUs),
      defined: bucket.policy !== null,
    })
    count(bucket, -line.joined.size, admission.nowUs)
  }
  return closed
}

function count(bucket: StoredBucket, deferred: number, toldUs: number | null): void {
  bucket.deferred = deferred
  bucket.toldUs = toldUs
  bucket.counted = true
}

function instantOf(wakeAtUs: number): number | null {
  return wakeAtUs === NEVER_US ? null : wakeAtUs
}
