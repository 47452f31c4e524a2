import { type BucketState, couldGrant, deniedUntil } from '../limits/bucket.ts'
import { keptBack } from '../limits/headroom.ts'
import type { LimitPolicy } from '../limits/limit.ts'
import type { ScanCursor } from './scan-cursor.ts'
import type { TurnState } from './turn.ts'
import type { TurnRank } from './turn-order.ts'

/**
 * The `wakeAtUs` of a wait list that waits for a permit, or whose lanes are all shadowed: no clock can tell its start.
 */
export const NEVER_US: number = Number.MAX_SAFE_INTEGER

/** One bucket within a decision: loaded under its lock, written back at the end. */
export interface Bucket {
  readonly id: number
  readonly limit: string
  readonly key: string
  /** Null: the limit is not defined here yet, nothing is admitted. */
  readonly policy: LimitPolicy | null
  /** The revision of the rules in force for it. */
  readonly revision: number
  /** When an override or a pause of it ends by itself: from then on its rules are others. Absent: none does. */
  readonly endsUs?: number
  readonly state: BucketState
  /** The permits held by active jobs. */
  active: number
  /** The number of lanes that need it. */
  readonly lanes: number
  /** When the first lane of the wait list may start; null: the list is empty; NEVER_US: a permit must return first. */
  wakeAtUs: number | null
  /** Starts that this decision granted from it, and the units that they cost. */
  granted: number
  grantedUnits: number
  /** Its state or its permits changed. */
  changed: boolean
}

/**
 * When the bucket alone admits a number of units. Null: now. NEVER_US: a permit must return, or the limit is not
 * defined. @param priority the job's own priority; null: it may use the headroom.
 */
export function deniedUntilUs(bucket: Bucket, weight: number, nowUs: number, priority: number | null): number | null {
  const { policy } = bucket
  if (!policy) return NEVER_US
  const kept = priority === null ? 0 : keptBack(policy, priority)
  const untilUs = deniedUntil(policy, bucket.state, bucket.active, nowUs, weight, kept)
  return untilUs === Infinity ? NEVER_US : untilUs
}

/** Whether a bucket's limit ends refused jobs at once. */
export function drops({ policy }: Bucket): boolean {
  return policy?.onLimit === 'drop' && policy.scope !== 'worker'
}

/** One waiting job at the head of its lane. */
export interface Head {
  readonly seq: number
  /** The level that orders the job. */
  readonly priority: number
  /** The priority given at enqueue, which decides about headroom. */
  readonly given: number
  /** Units per bucket, in the order of the lane's buckets; null: one each. */
  readonly weights: readonly number[] | null
  /** Runs so far. */
  readonly attempt: number
  /** When it became available. */
  readonly sinceUs: number
  /** After this instant it may no longer start; null: it has no such bound. */
  readonly latestUs: number | null
}

/** One lane within a decision: the waiting jobs of one queue that need the same buckets. */
export interface Lane extends TurnRank, TurnState {
  readonly queue: number
  readonly bucketIds: readonly number[]
  /** Read when a decision asks for them first: it passes most lanes over by the numbers of their buckets. */
  readonly buckets: readonly Bucket[]
  /** `parked`: all its jobs are of tasks that this claimer does not know. */
  state: 'open' | 'waiting' | 'empty' | 'parked'
  /** The bucket in whose wait list the lane stands; null: none. */
  on: Bucket | null
  /** The bucket whose wait list it left, to wait in another list for the lanes behind it; null: none. */
  deputyOf: Bucket | null
  priority: number
  turn: number
  taken: number
  readonly share: number
  head: number
  /** The head jobs loaded so far. `next` is the index of the first without a decision. */
  heads: Head[]
  next: number
  /** Jobs read so far. */
  loaded: number
  /** The lane has no more jobs to read. */
  ended: boolean
  /** Jobs that this decision took out from behind the head. */
  readonly gone: Set<number>
  /** The sums of its jobs behind a closed bucket; null: unknown, or no limit needs them. */
  scanCursor: ScanCursor | null
  changed: boolean
  /** It waits as before, but in another group. */
  regrouped?: boolean
}

/** The first waiting job of a lane whose task the claimer does not list. */
export interface UnlistedJob {
  readonly head: Head
  /** Another live worker knows its task. */
  readonly known: boolean
}

/** Reads the jobs that a claimer may not start. */
export interface UnlistedSource {
  /** A job at the head of a lane that this claimer may not start; null: none. The lane's heads were read before. */
  unlisted?(lane: Lane): UnlistedJob | null
}

/**
 * Reads waiting jobs of a lane beyond the loaded ones, in order, at most `count`. An empty list means there are no
 * more.
 */
export interface HeadSource {
  heads(lane: Lane, count: number): Head[]
  /** The first waiting jobs behind a place, in order. Fewer than `count` means there are no more. */
  behind(lane: Lane, priority: number, seq: number, count: number): Head[]
}

/**
 * The first waiting job of a lane. @param turns how many of its jobs may start, which bounds the read @param ahead how
 * many of them may start at later instants
 */
export function headOf(lane: Lane, source: HeadSource, turns: number, nowUs: number, ahead: number): Head | null {
  if (lane.next >= lane.heads.length)
    loadHeads(lane, source, 1 + Math.min(turns, Math.max(ahead, grantable(lane, nowUs))))
  return lane.heads[lane.next] ?? null
}

/** Loads further waiting jobs of a lane. */
export function loadHeads(lane: Lane, source: HeadSource, count: number): void {
  for (let found = 0; found === 0 && !lane.ended;) {
    const heads = source.heads(lane, count)
    const here = lane.gone.size === 0 ? heads : heads.filter((head) => !lane.gone.has(head.seq))
    lane.heads.push(...here)
    found = here.length
    lane.loaded += heads.length
    lane.ended = heads.length === 0
  }
}

/** The units that a head costs in the i-th bucket of its lane. A free retry costs none. */
export function weightOf(head: Head, i: number, bucket: Bucket): number {
  if (head.attempt > 0 && bucket.policy?.retries === 'free') return 0
  return head.weights?.[i] ?? 1
}

/** Ranks a lane by its first job, even if only another worker may start that job. */
export function placeAs(lane: Lane, head: Head): void {
  lane.priority = head.priority
  lane.head = head.seq
}

/** The first job of a lane if only another worker may start it. @param head the first job that this worker may start */
export function unlistedBefore(source: UnlistedSource, lane: Lane, head: Head | null): Head | null {
  const unlisted = source.unlisted?.(lane)
  if (!unlisted?.known) return null
  return head && comesBefore(head, unlisted.head) ? null : unlisted.head
}

/** Whether a job precedes another in the order of a lane. */
function comesBefore(a: Head, b: Head): boolean {
  return a.priority > b.priority || (a.priority === b.priority && a.seq < b.seq)
}

/** Starts that the lane's buckets could admit at once, at one unit each. */
function grantable(lane: Lane, nowUs: number): number {
  let most = Infinity
  for (const { policy, state, active } of lane.buckets)
    most = Math.min(most, policy ? couldGrant(policy, state, active, nowUs) : 0)
  return most
}
