import type { AdmissionSource } from '../../policy/admission/admission-source.ts'
import type { Bucket, Head, Lane, UnlistedJob } from '../../policy/admission/lane.ts'
import { waitsElsewhere, WATCHED_AT_MOST, type WatchedLane } from '../../policy/admission/drop-watch.ts'
import type { WaitListGroup, QueueService } from '../../policy/admission/wait-list.ts'
import { isOfTickets } from '../contract/budgets.ts'
import { hasPassed, type KnownTasks, type UnknownKind, withPassed } from '../contract/known-tasks.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import { loadBucket, loadBuckets, saveBucket } from './buckets.ts'
import { type Context, unlimitedLaneOf, queueId, queueName } from './context.ts'
import { saveWatches, watchRows } from './drop-watch.ts'
import { readAhead } from './read-ahead.ts'
import { bucketsOver, isScattered, overOf } from '../shared/lane-group.ts'
import { LanesRead } from '../shared/lanes-read.ts'
import { saveLane } from './save-lane.ts'
import { LANE, STATE } from '../shared/state.ts'
import { type HeadRow, UnlistedTasks, toHead } from './unlisted-tasks.ts'
import { liveOwnQueues, liveQueues } from './workers.ts'

type LaneRow = [
  id: number,
  queue: number,
  buckets: string,
  state: number,
  bucket: number | null,
  deputyOf: number | null,
  priority: number,
  turn: number,
  head: number,
  share: number,
  taken: number,
  sieve: string | null,
  base: number | null,
  passed: string | null,
]
const LANE_COLUMNS =
  'id, queue, buckets, state, bucket, deputy_of, priority, turn, head, share, taken, sieve, base, passed'
type GroupRow = [queue: number, over: string, id: number, priority: number, turn: number, head: number]

const IN_LIST = `FROM lanes n WHERE n.bucket = ?1 AND n.state = ${LANE.waiting}`
const BY_GROUP = 'ORDER BY n.queue, n.over, n.priority DESC, n.turn, n.head LIMIT 1'
/** The first lane of each group of a wait list: a look into the index finds the next group. */
const GROUPS = `WITH RECURSIVE firsts(id) AS (
    SELECT (SELECT n.id ${IN_LIST} ${BY_GROUP}) UNION ALL
    SELECT coalesce((SELECT n.id ${IN_LIST} AND n.queue = l.queue AND n.over > l.over ${BY_GROUP}), (SELECT n.id ${IN_LIST} AND n.queue > l.queue ${BY_GROUP}))
    FROM firsts f CROSS JOIN lanes l ON l.id = f.id)
  SELECT queue, over, id, priority, turn, head FROM firsts CROSS JOIN lanes USING (id)`
const BEHIND = `SELECT seq, priority, coalesce(asked, priority), weights, attempt, since, task, due FROM jobs WHERE lane = ? AND state = ${STATE.available}`
const HEADS = `${BEHIND} ORDER BY priority DESC, seq`

/**
 * One claim's view of the tables. It reads each lane and bucket once, when the decision needs it, and the claim writes
 * them back.
 */
export class Decision extends LanesRead implements AdmissionSource {
  readonly nowUs: number
  readonly #context: Context
  readonly #first = new Map<number, HeadRow[]>()
  readonly #open = new Set<Lane>()
  #live: ReadonlySet<number> | null = null
  /** The base lanes of views, which hold their jobs. */
  readonly #bases = new Map<number, number>()
  readonly #worker: number
  #apart: ReadonlySet<number> | null = null
  /** The queues that had a free slot when it first read due wait lists, as JSON. */
  #ready: string | null = null
  /** The limits whose due wait lists it leaves, as JSON. */
  #unserved: string | null = null
  readonly #known: KnownTasks | null
  readonly #unlisted: UnlistedTasks
  /** By parked lane: the task sets that found nothing in it. */
  readonly #passed = new Map<number, string>()
  /** The buckets whose wait lists have many small groups. */
  readonly #scattered = new Set<Bucket>()

  readonly yieldedSince: AdmissionSource['yieldedSince']

  /** @param known the tasks whose jobs may start; null: any. @param patient lets other workers start the first jobs */
  constructor(context: Context, nowUs: number, worker: number, known: KnownTasks | null, patient: boolean) {
    super()
    this.#context = context
    this.nowUs = nowUs
    this.#worker = worker
    this.#known = known
    this.#unlisted = new UnlistedTasks(context, known, worker, nowUs)
    if (known && patient) this.yieldedSince = ({ id }, seq) => context.yields.since(known, id, seq, nowUs)
  }

  bucket(id: number): StoredBucket {
    let bucket = this.buckets.get(id)
    if (!bucket) this.buckets.set(id, (bucket = loadBucket(this.#context, id, this.nowUs)))
    return bucket
  }

  /**
   * Open lanes of a queue in turn, after `skip` of them. One statement each reads their buckets and first
   * jobs.
   */
  openLanes(queue: number, count: number, skip: number): Lane[] {
    const rows = this.#context.db.all<LaneRow>(
      `SELECT ${LANE_COLUMNS} FROM lanes WHERE queue = ? AND state = ${LANE.open} ORDER BY priority DESC, turn, head LIMIT ${readAhead(count)} OFFSET ?`,
      queue,
      skip,
    )
    return this.#lanesOf(rows, queue)
  }

  /** Parked lanes of a queue in which other claimers found nothing, each task set in turn, after `skip` of each. */
  parkedLanes(queue: number, count: number, skip: number): Lane[] {
    const rows: LaneRow[] = []
    for (let passed = ''; ;) {
      const next = this.#context.db.get<[string]>(
        `SELECT passed FROM lanes WHERE queue = ? AND state = ${LANE.parked} AND passed > ? ORDER BY passed LIMIT 1`,
        queue,
        passed,
      )
      if (!next) break
      ;[passed] = next
      if (hasPassed(passed, this.#known)) continue
      rows.push(
        ...this.#context.db.all<LaneRow>(
          `SELECT ${LANE_COLUMNS} FROM lanes WHERE queue = ? AND state = ${LANE.parked} AND passed = ? ORDER BY priority DESC, turn, head LIMIT ${readAhead(count)} OFFSET ?`,
          queue,
          passed,
          skip,
        ),
      )
    }
    return this.#lanesOf(rows, queue)
  }

  #lanesOf(rows: readonly LaneRow[], queue: number): Lane[] {
    this.#readBuckets(rows)
    const lanes = rows.map((row) => this.#lane(row))
    if (lanes.length > 1) this.#readFirst(lanes, 1 + Math.ceil((this.shares.get(queue)?.slots ?? 0) / lanes.length))
    return lanes
  }

  /** Reads the buckets of many lanes at once. */
  #readBuckets(rows: readonly LaneRow[]): void {
    const missing = rows.flatMap((row) => JSON.parse(row[2]) as number[]).filter((id) => !this.buckets.has(id))
    if (missing.length === 0) return
    for (const bucket of loadBuckets(this.#context, [...new Set(missing)], this.nowUs))
      this.buckets.set(bucket.id, bucket)
  }

  /** The first unlisted job of a lane whose first jobs were read; null: there is none, or they were not read. */
  unlisted(lane: Lane): UnlistedJob | null {
    return this.#unlisted.of(this.#jobsOf(lane))
  }

  /** Jobs that the decision saw whose tasks no live worker lists. */
  unknown(): UnknownKind[] {
    return this.#unlisted.unknown()
  }

  /**
   * Buckets whose wait list is due by an instant, longest due first: the fleet's (worker 0), or a worker's own. Of lists
   * in which only lanes of other queues wait, those of limits that drop jobs in other lists. Thousands of the others may
   * stay due for as long as their queue is full or has no worker, or this process lacks their backend.
   */
  dueBuckets(worker: number, count: number, skip: number, untilUs: number): StoredBucket[] {
    return this.#context.db
      .all<[number]>(
        `SELECT id FROM buckets b WHERE worker = ?1 AND wake_at <= ?2 AND (
           b.limit_name NOT IN (SELECT value FROM json_each(?5)) AND EXISTS (SELECT 1 FROM json_each(?4) q CROSS JOIN lanes l WHERE l.bucket = b.id AND l.state = ${LANE.waiting} AND l.queue = q.value)
           OR NOT EXISTS (SELECT 1 FROM lanes l WHERE l.bucket = b.id AND l.state = ${LANE.waiting})
           OR b.limit_name NOT IN (SELECT value FROM json_each(?5)) AND EXISTS (SELECT 1 FROM drop_watch w WHERE w.bucket = b.id))
         ORDER BY wake_at LIMIT ${readAhead(count)} OFFSET ?3`,
        worker,
        untilUs,
        skip,
        (this.#ready ??= this.#queuesWithRoom()),
        (this.#unserved ??= JSON.stringify(this.elsewhere.unserved(this.#context.policies.current.elsewhere))),
      )
      .map(([id]) => this.bucket(id))
  }

  #queuesWithRoom(): string {
    return JSON.stringify([...this.shares].filter(([, { slots }]) => slots > 0).map(([queue]) => queue))
  }

  heads(lane: Lane, count: number): Head[] {
    const of = this.#jobsOf(lane)
    const first = lane.loaded === 0 ? this.#first.get(of) : undefined
    return (first ?? this.#read(of, lane.queue, lane.loaded, count)).map(toHead)
  }

  behind(lane: Lane, priority: number, seq: number, count: number): Head[] {
    const { db } = this.#context
    const limit = readAhead(count)
    const rows = db.all<HeadRow>(
      `${BEHIND} AND priority = ? AND seq > ? ORDER BY seq LIMIT ${limit}`,
      this.#jobsOf(lane),
      priority,
      seq,
    )
    if (rows.length < count)
      rows.push(
        ...db.all<HeadRow>(
          `${BEHIND} AND priority < ? ORDER BY priority DESC, seq LIMIT ${limit}`,
          this.#jobsOf(lane),
          priority,
        ),
      )
    // A job that this claimer cannot start makes none of its jobs late.
    const some = this.shares.has(lane.queue) && this.#unlisted.note(this.#jobsOf(lane), lane.queue, rows)
    return (some ? rows.filter((row) => this.#unlisted.lists(row)) : rows).slice(0, count).map(toHead)
  }

  unlimitedLane(queue: number, skip: number, count: number): Head[] {
    return this.#read(unlimitedLaneOf(queue), queue, skip, count).map(toHead)
  }

  groups(bucket: Bucket): WaitListGroup[] {
    const rows = this.#context.db.all<GroupRow>(GROUPS, bucket.id)
    if (isScattered(bucket, rows.length)) this.#scattered.add(bucket)
    return rows.map((row) => this.#group(bucket.id, row))
  }

  deputyBuckets(bucket: Bucket): number[] {
    const rows = this.#context.db.all<[number]>('SELECT DISTINCT bucket FROM lanes WHERE deputy_of = ?', bucket.id)
    return rows.map(([id]) => id)
  }

  deputies(bucket: Bucket, on: number): Lane[] {
    const rows = this.#context.db.all<LaneRow>(
      `SELECT ${LANE_COLUMNS} FROM lanes WHERE deputy_of = ? AND bucket = ?`,
      bucket.id,
      on,
    )
    return rows.map((row) => this.#lane(row))
  }

  served(queue: number): QueueService {
    if (this.shares.has(queue)) return 'here'
    this.#live ??= new Set(
      liveQueues(this.#context, this.nowUs, this.#worker).map((name) => queueId(this.#context, name)),
    )
    if (this.#live.has(queue)) return 'elsewhere'
    this.#apart ??= new Set(liveOwnQueues(this.#context, this.nowUs, this.#worker))
    return this.#apart.has(queue) ? 'apart' : 'nowhere'
  }

  ofCalls(queue: number): boolean {
    return isOfTickets(queueName(this.#context, queue))
  }

  #jobsOf(lane: Lane): number {
    return this.#bases.get(lane.id) ?? lane.id
  }

  /** Writes the lanes and buckets that the decision changed. */
  save(): void {
    for (const lane of this.lanes.values())
      if (lane.changed) this.#saveLane(lane)
      else if (lane.regrouped)
        this.#context.db.run('UPDATE lanes SET over = ? WHERE id = ?', this.#overOf(lane), lane.id)
    for (const bucket of this.buckets.values()) saveBucket(this.#context, bucket, this.nowUs)
  }

  #overOf(lane: Lane): string {
    return overOf(lane, lane.on !== null && this.#scattered.has(lane.on))
  }

  #saveLane(lane: Lane): void {
    const passed =
      lane.state === 'parked' && this.#known ? withPassed(this.#passed.get(lane.id) ?? null, this.#known) : null
    const over = lane.state === 'waiting' ? this.#overOf(lane) : ''
    saveLane(this.#context, lane, { wasOpen: this.#open.has(lane), nowUs: this.nowUs, passed, over })
    saveWatches(this.#context, lane)
  }

  watched(bucket: Bucket, anywhere = false): WatchedLane[] {
    return watchRows(this.#context, bucket.id, anywhere ? null : [...this.shares.keys()]).map(([need, id]) => ({
      need,
      lane: () => this.lanes.get(id) ?? this.#lane(this.#laneRow(id)),
    }))
  }

  needsElsewhere(bucket: Bucket): number[] {
    return this.needsOf(bucket, watchRows(this.#context, bucket.id, null))
  }

  isWatched(bucket: Bucket): boolean {
    for (const lane of this.lanes.values()) if (waitsElsewhere(lane, bucket)) return true
    const rows = watchRows(this.#context, bucket.id, null)
    return rows.length >= WATCHED_AT_MOST || rows.some(([, id]) => !this.lanes.has(id))
  }

  #laneRow(id: number): LaneRow {
    return this.#context.db.get<LaneRow>(`SELECT ${LANE_COLUMNS} FROM lanes WHERE id = ?`, id) as LaneRow
  }

  /** Reads the first jobs of many lanes at once: a statement for each costs twice as much. */
  #readFirst(lanes: readonly Lane[], count: number): void {
    const ids = JSON.stringify(lanes.map((lane) => this.#jobsOf(lane)))
    const rows = this.#context.db.all<[lane: number, ...HeadRow]>(firstHeads(readAhead(count)), ids)
    const found = new Map<number, HeadRow[]>()
    for (const [lane, ...row] of rows) {
      const heads = found.get(lane)
      if (heads) heads.push(row)
      else found.set(lane, [row])
    }
    for (const lane of lanes) {
      const of = this.#jobsOf(lane)
      const heads = found.get(of)
      if (!heads) continue
      heads.sort((a, b) => b[1] - a[1] || a[0] - b[0])
      this.#first.set(of, this.#unlisted.known(of, lane.queue, heads, 0, count))
    }
  }

  // A decision writes nothing while it reads, so an offset is as good as a key, and a claim starts few jobs of one
  // lane.
  #read(lane: number, queue: number, skip: number, count: number): HeadRow[] {
    // Jobs for other workers count in the wait lists of queues that this claimer does not serve.
    const served = this.shares.has(queue)
    if (served && this.#unlisted.has(lane)) return this.#unlisted.read(lane, skip, count)
    const rows = this.#context.db.all<HeadRow>(`${HEADS} LIMIT ${readAhead(count)} OFFSET ?`, lane, skip)
    return served ? this.#unlisted.known(lane, queue, rows, skip, count) : rows
  }

  #group(bucket: number, [queue, over, id, priority, turn, head]: GroupRow): WaitListGroup {
    let rows: LaneRow[] | null = null
    let at = 0
    let skipped = 0
    const refill = (): LaneRow[] => {
      skipped += rows?.length ?? 0
      at = 0
      return this.#context.db.all<LaneRow>(
        `SELECT ${LANE_COLUMNS} FROM lanes WHERE bucket = ? AND state = ${LANE.waiting} AND queue = ? AND over = ? ORDER BY priority DESC, turn, head LIMIT ${readAhead(2 + skipped)} OFFSET ?`,
        bucket,
        queue,
        over,
        skipped,
      )
    }
    return {
      queue,
      over: bucketsOver(over),
      // As stored: the decision may have moved the lane, and then those behind it stand there.
      front: () => {
        if (rows === null) return { id, priority, turn, head }
        const row = rows[at]
        return row ? { id: row[0], priority: row[6], turn: row[7], head: row[8] } : null
      },
      peek: () => {
        rows ??= refill()
        const row = rows[at]
        return row ? this.#lane(row) : null
      },
      advance: () => {
        rows ??= refill()
        if (++at >= rows.length && rows.length > 0) rows = refill()
      },
    }
  }

  #lane(row: LaneRow): Lane {
    const [id, queue, buckets, state, on, deputyOf, priority, turn, head, share, taken, scanCursor, base, passed] = row
    const known = this.lanes.get(id)
    if (known) return known
    const refs = { buckets: JSON.parse(buckets) as number[], state, on, deputyOf, scanCursor }
    const lane = this.add({ id, queue, priority, turn, taken, share, head }, refs)
    if (base !== null) this.#bases.set(id, base)
    if (state === LANE.open) this.#open.add(lane)
    if (state === LANE.parked && passed !== null) this.#passed.set(id, passed)
    return lane
  }
}

function firstHeads(count: number): string {
  return `SELECT j.lane, j.seq, j.priority, coalesce(j.asked, j.priority), j.weights, j.attempt, j.since, j.task, j.due FROM json_each(?) e CROSS JOIN jobs j ON j.seq IN
    (SELECT seq FROM jobs h WHERE h.lane = e.value AND h.state = ${STATE.available} ORDER BY h.priority DESC, h.seq LIMIT ${count})`
}
