/** Statements that both stores run. They are written for PostgreSQL, in terms that SQLite shares or can drop. */
import type { FlowNews } from '../../jobs/flow.ts'
import type { BucketName } from '../../limiter/contract/limiter.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type { DeclaredQueue, Retention } from '../contract/store.ts'
import type { StoredBucket } from './stored-bucket.ts'
import { type Answer, ask, type Reading } from './reading.ts'
import type { Instant } from '../../jobs/series.ts'
import type { Timelines } from './timelines.ts'
import type { Member, Placement } from './workflows/place.ts'

/** A parameter of a statement. */
export type SqlValue = string | number | boolean | null | readonly (string | number | null)[]

/** The statements of one connection. SQLite answers at once. */
export interface Sql {
  all<Row extends readonly unknown[]>(sql: string, ...values: SqlValue[]): Row[] | Promise<Row[]>
  get<Row extends readonly unknown[]>(sql: string, ...values: SqlValue[]): Row | undefined | Promise<Row | undefined>
  run(sql: string, ...values: SqlValue[]): number | Promise<number>
  /** Runs the last statement of a transaction, which it may commit in the same round trip. Absent: as `run`. */
  last?(sql: string, ...values: string[]): unknown
}

/** A column of a queue that callers set. */
export type QueueColumn = 'paused' | 'limit_name' | 'bounds' | 'stripes'

/** The parts of a store that the logic of workflow flows needs, within one transaction. */
export interface FlowAccess {
  readonly db: Sql
  readonly retention: Retention
  now(): Instant | Promise<Instant>
  /** The name of a stored queue, or of the shared queue behind a worker's own. */
  readonly queueName: (stored: string | number) => string
  /** Locks buckets, in the order of their ids. */
  lockBuckets(ids: readonly number[]): unknown
  /** Returns permits to buckets; a negative number held none. */
  returnPermits(ids: readonly number[]): unknown
  /** Makes the next claim evaluate the heads of the lanes that these jobs have left. */
  leaveLanes(seqs: readonly number[], nowUs: number): unknown
  /** Has every process, with this one, look for runs that were asked to end, once this is committed. */
  tellCancelled(): unknown
  /** Makes jobs available in their lanes, at their old places. */
  wakeJobs(seqs: readonly number[]): unknown
  /** Moves jobs of flows to their new places, and counts the moves. */
  placeJobs(moves: readonly Placement[]): unknown
  /** Stores jobs of flows at their places. */
  insertMembers(members: readonly Member[]): unknown
}

/** The new queue or priority of waiting jobs; null: unchanged. */
export interface Rehoming {
  readonly queue: string | null
  readonly priority: number | null
}

/** The parts of a store that the writing of changes needs. */
export interface EventWriting {
  /** The present position, as SQL of a text. */
  readonly position: string
  /** The condition on `events e` for those behind a position. @param position SQL of a text */
  readonly behind: (position: string) => string
  /** Locks the readers until the transaction ends; false: another transaction holds that lock. */
  lock(wait: boolean): Answer<boolean>
  /** Whether changes are written. */
  isOn(): Answer<boolean>
  /** Begins or ceases to write changes; false: transactions of others stand in the way. */
  write(on: boolean): Answer<boolean>
}

/** Locked buckets, and what a decision about them needs, as it was once all of them were locked. */
export interface OpenBuckets {
  readonly buckets: readonly StoredBucket[]
  readonly limits: Timelines
  readonly instant: Instant
  readonly standing: readonly StandingRow[]
}

/** The lanes of one queue that stand in the wait list of a bucket: the highest priority and the earliest turn. */
export type StandingRow = readonly [bucket: number, queue: string | number, highest: number, turn: number]

/** The parts of a store that shared logic needs. */
export interface Access extends FlowAccess {
  /** The column of lanes that `jobs.lane` refers to. */
  readonly laneKey: 'id' | 'key'
  /** The condition on `queue` for jobs of the queues whose name passes a test. */
  readonly queues: (test: (name: string) => string) => string
  /**
   * Selects columns of the jobs in one state by its index; a LIMIT may follow. PostgreSQL has none by `pending`: only
   * the newest jobs of flows are looked at.
   */
  readonly inState: (state: number, columns: string) => string
  /** The condition on `jobs j` for those that need a limit, or its budget of one key. `place` adds values. */
  needs(limit: string, key: string | null, place: (value: SqlValue) => string): string
  /** The name of the limit of a stored bucket. */
  readonly limitName: (stored: string) => string
  /** Records queues that this process has named and not recorded yet. */
  recordQueues(): unknown
  /** Changes one column of a queue, which is recorded if it is new. */
  setQueue(queue: string, column: QueueColumn, value: string | boolean | number | null): unknown
  /** Names of schedules in time zones that this process does not know. */
  readonly unreadable: Set<string>
  /** Locks all schedules until the transaction ends: one at a time may advance a series. */
  readonly lockSchedules: () => unknown
  /** The queue limits that this process declared, by queue. */
  readonly declared: Map<string, DeclaredQueue>
  /** The limits, read again if any of them has changed. Not after a change in the same transaction. */
  limits(): Answer<Timelines>
  /** Reads all limits with the changes up to a number. */
  readLimits(generation: number): Answer<Timelines>
  /** Locks all limits until the transaction ends. */
  lockLimits(): unknown
  /** Keeps the limits that this transaction has changed. */
  keepLimits(limits: Timelines): unknown
  /** Writes what statements need to know of a limit. */
  writeLimit(limit: string, timeline: Timeline): unknown
  /** Lets the waiting jobs of a limit wait for the budgets of its new scope. */
  changeScope(limit: string, nowUs: number): unknown
  /** Counts permits of a limit that had none: its active jobs now hold theirs. */
  countPermits(limit: string, limits: Timelines, gains: (key: string) => boolean): unknown
  /** Selects all buckets `b` of the limit $1: the fleet's and those that workers own. */
  readonly ofLimit: string
  /** Makes a job available in its lane, at its old place. The bound on its wait starts again; its expiry stays. */
  rejoin(seq: number, instant: Instant): unknown
  /** Gives waiting jobs that belong to no flow another queue or another priority. */
  rehome(seqs: readonly number[], to: Rehoming, nowUs: number): unknown
  /** Applies the end of a job to its flow. */
  endInFlow(seq: number, flow: number, instant: Instant): Answer<FlowNews | undefined>
  /** Reopens the flow of a discarded node that a caller retries: the jobs that its failure cancelled wait again. */
  reopen(seq: number, flow: number, node: number): unknown
  /** Selects the buckets `b` that workers own of the limit $1. */
  readonly ownOf: string
  /** The lanes that need this bucket and no other, in the columns of `CONTENDER`; not always all of them. */
  lanesOf(bucket: StoredBucket): Answer<readonly (readonly number[])[]>
  /** The id of a bucket, which is created if new. `worker`: its owner; 0: the fleet. */
  bucketId(limit: string, key: string, worker: number): Answer<number>
  /** The limits as this process last read them. `openBuckets` reads them again if any of them has changed. */
  knownLimits(): Timelines
  /** Locks the fleet's buckets of these names, in the order of their ids, and creates those that are new. */
  openBuckets(names: readonly BucketName[]): Answer<OpenBuckets>
  /** Locks a queue, which is recorded if it is new. */
  lockQueue(queue: string): unknown
  /** How changes are written for readers in any process. */
  readonly events: EventWriting
  /** The id of the host's boot. */
  readonly bootId: string
  /** Creates the views of workers that begin to serve these queues. */
  createViews(queues: readonly string[]): unknown
  /** Deletes the views of workers that are gone. */
  dropViews(workers: readonly number[], queues: readonly string[], nowUs: number): unknown
  /** Closes the views of silent workers until their next heartbeat. */
  suspendViews(workers: readonly number[], queues: readonly string[], nowUs: number): unknown
  /** Makes wait lists due at once. */
  wakeWaitLists(buckets: readonly number[], nowUs: number): unknown
}

/** All rows of a query. */
export function all<Row extends readonly unknown[]>(db: Sql, sql: string, ...values: SqlValue[]): Reading<Row[]> {
  return ask(() => db.all<Row>(sql, ...values))
}

/** The first row of a query. */
export function get<Row extends readonly unknown[]>(
  db: Sql,
  sql: string,
  ...values: SqlValue[]
): Reading<Row | undefined> {
  return ask(() => db.get<Row>(sql, ...values))
}

/** Runs a statement for its effect. @returns the number of rows changed */
export function run(db: Sql, sql: string, ...values: SqlValue[]): Reading<number> {
  return ask(() => db.run(sql, ...values))
}

/** Runs the last statement of a transaction. Its values are texts. */
export function last(db: Sql, sql: string, ...values: string[]): Reading<unknown> {
  return ask(() => (db.last ? db.last(sql, ...values) : db.run(sql, ...values)))
}

/** The store's clock. */
export function now(access: Pick<Access, 'now'>): Reading<Instant> {
  return ask(() => access.now())
}

/** Whether a text can be the id of a job or a flow; a search for any other text finds nothing. */
export function isUuid(id: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(id)
}

/** The tables that both stores empty for tests, beside the jobs. */
export const EMPTIED: readonly string[] =
  'lanes buckets permits limits overrides schedules queues flows flow_edges flow_steps flow_signals drop_watch audit series job_logs'.split(
    ' ',
  )
