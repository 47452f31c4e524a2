import { headOf } from '../shared/lanes-read.ts'
import type { HeldBucket } from '../shared/throttling.ts'
import type { Head } from '../../policy/admission/lane.ts'

/** The columns of a lane. */
export type LaneRow = [
  id: number,
  queue: string,
  buckets: number[],
  state: number,
  bucket: number | null,
  deputyOf: number | null,
  priority: number,
  turn: number,
  head: number,
  over: string,
  share: number,
  taken: number,
  sieve: string | null,
  passed: string | null,
]

/** A waiting job at the front of a lane or of an unlimited lane, with that place before it. */
export type HeadRow<Place> = [
  place: Place,
  seq: number,
  priority: number,
  weights: string | null,
  attempt: number,
  since: number,
  given: number,
  /** Its task, if the claimer does not list it. */
  unlisted?: string | null,
  /** After this instant it may no longer start. */
  latest?: number | null,
]

/** The next due times of jobs, and of a wait list. */
export type NextRow = [
  scheduled: number | null,
  retryable: number | null,
  available: number | null,
  wakeAt: number | null,
]

/** The rows that a claim decides on, read under its locks by its first round trip. */
export interface ReadSet {
  readonly now: number
  readonly wall: number
  /** Wait lists due by this instant were read. */
  readonly dueUntil: number
  readonly generation: number
  readonly due: readonly number[]
  readonly open: readonly number[]
  /** Buckets whose wait lists were read. */
  readonly lined: readonly number[]
  /** Those of them whose lanes were read in one order for each queue, and not by groups. */
  readonly inOrder: readonly number[]
  readonly lineBuckets: readonly number[]
  readonly lineLanes: readonly number[]
  /** The queues' own buckets, in the order of the request. */
  readonly own: readonly number[]
  /** Queues that are paused, or that have a limit set by an operator. */
  readonly held: readonly (readonly [queue: string, paused: boolean, limit: string | null])[] | null
  readonly lanes: readonly LaneRow[] | null
  /** Deputies in the lists of the buckets that were read: in the way of lanes, but not to be examined themselves. */
  readonly deputies: readonly LaneRow[] | null
  /** How many waiting jobs the claim asked for, by lane. */
  readonly depths: readonly number[] | null
  /** The fields of `BUCKET`. */
  readonly buckets: readonly (readonly [id: number, ...unknown[]])[] | null
  readonly heads: readonly HeadRow<number>[] | null
  /** The first job of each listed task in lanes with unlisted jobs; read if unlisted jobs are expected. */
  readonly knownHeads: readonly HeadRow<number>[] | null
  readonly knownLine: readonly HeadRow<string>[] | null
  /** Other live workers; null tasks: any. Read if unlisted jobs are expected. */
  readonly workers: readonly (readonly [queues: readonly string[], tasks: readonly string[] | null])[] | null
  /** Waiting jobs behind the last one that the late scan of their lane read. */
  readonly behind: readonly HeadRow<number>[] | null
  readonly line: readonly HeadRow<string>[] | null
  /**
   * Lanes that wait for another bucket and need one that drops, the greatest need first; `here`: of a queue that
   * claims.
   */
  readonly watched: readonly (readonly [bucket: number, need: number, lane: number, here: boolean])[] | null
  /** The buckets of the claimer's held starts; null: it holds none. */
  readonly holds: readonly HeldBucket[] | null
  /** More arrivals are left. */
  readonly arrived: boolean
  readonly live: readonly string[] | null
  /** The locked stripes, and whether others have work; null: every queue has one stripe. */
  readonly stripes: LockedStripes | null
  /** The own queues of other live workers. */
  readonly apart: readonly string[] | null
  readonly fire: readonly [storeUs: number | null, wallUs: number | null, released: string | null]
  /** Lanes of unresolved jobs. */
  readonly unresolved: readonly string[] | null
  /** Due times after the read of the due buckets. */
  readonly next: NextRow
}

/** The first jobs of lanes, by columns, in the order of `HeadRow`; null: no lane has any, or has that column. */
export type HeadColumns = readonly [
  lanes: readonly number[] | null,
  seqs: readonly number[],
  priorities: readonly number[],
  weights: readonly (string | null)[] | null,
  attempts: readonly number[],
  since: readonly number[],
  given: readonly number[],
  unlisted: readonly (string | null)[] | null,
  latest: readonly (number | null)[] | null,
]

/** The rows of these columns. */
export function headRows(columns: HeadColumns): HeadRow<number>[] {
  const [lanes, ...rest] = columns
  const [seqs, priorities, weights, attempts, since, given, unlisted, latest] = rest
  return (lanes ?? []).map((lane, i) => [
    lane,
    seqs[i] as number,
    priorities[i] as number,
    weights?.[i] ?? null,
    attempts[i] as number,
    since[i] as number,
    given[i] as number,
    unlisted?.[i] ?? null,
    latest?.[i] ?? null,
  ])
}

/** The names of the stripes that a claim has locked, and of queues with one stripe. `more`: others have work. */
export type LockedStripes = readonly [names: readonly string[], more: boolean]

/** Groups rows by their place, each group in the order of its lane. */
export function grouped<Place>(rows: readonly HeadRow<Place>[] | null): Map<Place, HeadRow<Place>[]> {
  const groups = new Map<Place, HeadRow<Place>[]>()
  for (const row of rows ?? []) addTo(groups, row[0], row)
  for (const each of groups.values()) each.sort((a, b) => b[2] - a[2] || a[1] - b[1])
  return groups
}

/** A waiting job for a decision. */
export function toHead([, seq, priority, weights, attempt, sinceUs, given, , latestUs]: HeadRow<unknown>): Head {
  return headOf(seq, priority, given, weights, attempt, sinceUs, latestUs ?? null)
}

/** The number of rows of each kind that the first round trip reads. */
export interface ReadPlan {
  readonly open: number
  readonly due: number
  /** Lanes of each group of a wait list. */
  readonly line: number
  /** Lanes of each queue of a wait list that is read in one order. */
  readonly orderedLine: number
  /** Wait lists that are read in another way than most, by bucket. */
  readonly lists: ReadonlyMap<number, ListRead>
  /** A wait list of many groups with at most so many lanes is read in one order, and a longer one of more groups. */
  readonly short: number
  /** The fewest waiting jobs of each lane; of an open lane, at least those of its turns in this claim. */
  readonly heads: number
  /** The fewest waiting jobs of each open lane. */
  readonly openHeads: number
  readonly slots: number
  readonly depth: number
  /** Waiting jobs of the named lanes. */
  readonly deepHeads: number
  /** Deputies of queues with free slots are read without their jobs and buckets. */
  readonly deputiesApart: boolean
  readonly lanes: readonly number[]
  readonly buckets: readonly number[]
  /** The claim expects jobs whose tasks the claimer does not list. */
  readonly expectsUnlisted: boolean
  /** Jobs that other processes have locked. */
  readonly skip: readonly number[]
}

/** How much of one wait list is read. */
export interface ListRead {
  /** As `line` or `orderedLine` of the plan, if it is more. */
  readonly line: number
  /** Lanes of single groups, if they are more: by the stored name of the group. */
  readonly groups: ReadonlyMap<string, number>
  /** Whether it is read in one order; null: the server looks at its length and its groups. */
  readonly inOrder: boolean | null
  /** For how many more claims. */
  readonly claims: number
}

/** How many lanes a plan reads of a group of a bucket's wait list; null: of each queue, if it reads it in one order. */
export function lineOf(plan: ReadPlan, bucket: number, group: string | null): number {
  const list = plan.lists.get(bucket)
  const single = group === null ? 0 : (list?.groups.get(group) ?? 0)
  return Math.max(group === null ? plan.orderedLine : plan.line, list?.line ?? 0, single)
}

/** How far a decision has gone in wait lists, by group; null: in a list that the claim read in one order. */
export class Depths {
  readonly #lists = new Map<number, Map<string | null, number>>()

  reach(bucket: number, group: string | null, depth: number): void {
    const groups = this.of(bucket)
    groups.set(group, Math.max(groups.get(group) ?? 0, depth))
    this.#lists.set(bucket, groups)
  }

  /** The groups of a bucket's wait list in which it has looked at lanes. */
  of(bucket: number): Map<string | null, number> {
    return this.#lists.get(bucket) ?? new Map<string | null, number>()
  }
}

/** A decision asked for rows that its read set lacks. The claim reads more and decides again: it must not guess. */
export class ReadMiss extends Error {
  readonly #widen: (plan: ReadPlan) => ReadPlan

  constructor(what: string, widen: (plan: ReadPlan) => ReadPlan) {
    super(`A claim needs to read more: ${what}`)
    this.#widen = widen
  }

  /** The plan that reads the missing rows too. */
  widened(plan: ReadPlan): ReadPlan {
    return this.#widen(plan)
  }
}

/** A bucket, and its wait list. */
export function needBucket(id: number): ReadMiss {
  return new ReadMiss(`bucket ${id} and its line`, (plan) => ({
    ...plan,
    depth: plan.depth + 1,
    buckets: [...plan.buckets, id],
  }))
}

/** The deputies among lanes, by the wait list that they left and then by the bucket in whose list they wait. */
export function deputiesAmong(rows: readonly LaneRow[]): ReadonlyMap<number, ReadonlyMap<number, readonly LaneRow[]>> {
  const lists = new Map<number, Map<number, LaneRow[]>>()
  for (const row of rows) {
    const [, , , , on, deputyOf] = row
    if (on === null || deputyOf === null) continue
    const deputies = lists.get(deputyOf) ?? new Map<number, LaneRow[]>()
    lists.set(deputyOf, deputies)
    addTo(deputies, on, row)
  }
  return lists
}

/** Adds a value to the list of a key. */
export function addTo<Key, T>(lists: Map<Key, T[]>, key: Key, value: T): void {
  const list = lists.get(key)
  if (list) list.push(value)
  else lists.set(key, [value])
}
