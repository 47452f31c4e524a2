import type { AdmissionSource, QueueShare } from '../../policy/admission.ts'
import { couldGrant } from '../../policy/bucket.ts'
import type { Bucket, Head, Lane, LineGroup, Served } from '../../policy/line.ts'
import { loadBucket, saveBucket, type StoredBucket } from './buckets.ts'
import { type Context, openLineOf, queueId } from './context.ts'
import { LANE } from './state.ts'
import { liveQueues } from './workers.ts'

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
]
type HeadRow = [seq: number, priority: number, weights: string | null, attempt: number, since: number]

const LANE_COLUMNS = 'id, queue, buckets, state, bucket, deputy_of, priority, turn, head'
const HEADS = 'SELECT seq, priority, weights, attempt, since FROM jobs WHERE lane = ? AND state = 1'

/** A bucket that so many lanes need groups the lines of others: its lanes can be held together behind one deputy. */
const SHARED_BY = 16
const ROWS_AT_ONCE = 8

/** One claim's view of the tables: read as the decision asks, each lane and bucket once, written back by the claim. */
export class Decision implements AdmissionSource {
  readonly nowUs: number
  readonly lanes: Map<number, Lane> = new Map()
  readonly buckets: Map<number, StoredBucket> = new Map()
  readonly #context: Context
  #shares: ReadonlyMap<number, QueueShare> = new Map()
  readonly #heads = new Map<number, Head>()
  #live: ReadonlySet<number> | null = null
  readonly #worker: number

  constructor(context: Context, nowUs: number, worker: number) {
    this.#context = context
    this.nowUs = nowUs
    this.#worker = worker
  }

  /** Says which queues the decision is for. */
  serve(shares: readonly QueueShare[]): void {
    this.#shares = new Map(shares.map((share) => [share.queue, share]))
  }

  bucket(id: number): StoredBucket {
    let bucket = this.buckets.get(id)
    if (!bucket) this.buckets.set(id, (bucket = loadBucket(this.#context, id, this.nowUs)))
    return bucket
  }

  /** Open lanes of a queue in turn, those after `skip` of them. */
  openLanes(queue: number, count: number, skip: number): Lane[] {
    return this.#context.db
      .all<LaneRow>(
        `SELECT ${LANE_COLUMNS} FROM lanes WHERE queue = ? AND state = ${LANE.open} ORDER BY priority DESC, turn, head LIMIT ? OFFSET ?`,
        queue,
        count,
        skip,
      )
      .map((row) => this.#lane(row))
  }

  /** Buckets whose line is due, longest due first. */
  dueBuckets(count: number, skip: number): StoredBucket[] {
    return this.#context.db
      .all<[number]>(
        'SELECT id FROM buckets WHERE wake_at <= ? ORDER BY wake_at LIMIT ? OFFSET ?',
        this.nowUs,
        count,
        skip,
      )
      .map(([id]) => this.bucket(id))
  }

  heads(lane: Lane, count: number): Head[] {
    return this.#read(lane.id, lane.heads.at(-1), Math.min(count, Math.max(1, this.#grantable(lane))))
  }

  openLine(queue: number, count: number): Head[] {
    const line = openLineOf(queue)
    const heads = this.#read(line, this.#heads.get(line), count)
    const last = heads.at(-1)
    if (last) this.#heads.set(line, last)
    return heads
  }

  groups(bucket: Bucket): LineGroup[] {
    const groups: LineGroup[] = []
    let queue = -1
    let over = ''
    for (;;) {
      const next = this.#context.db.get<[number, string]>(
        `SELECT queue, over FROM lanes WHERE bucket = ? AND state = ${LANE.waiting} AND (queue, over) > (?, ?) ORDER BY queue, over LIMIT 1`,
        bucket.id,
        queue,
        over,
      )
      if (!next) return groups
      ;[queue, over] = next
      groups.push(this.#group(bucket.id, queue, over))
    }
  }

  deputies(bucket: Bucket): Lane[] {
    return this.#context.db
      .all<LaneRow>(`SELECT ${LANE_COLUMNS} FROM lanes WHERE deputy_of = ?`, bucket.id)
      .map((row) => this.#lane(row))
  }

  served(queue: number): Served {
    if (this.#shares.has(queue)) return 'here'
    this.#live ??= new Set(
      liveQueues(this.#context, this.nowUs, this.#worker).map((name) => queueId(this.#context, name)),
    )
    return this.#live.has(queue) ? 'elsewhere' : 'nowhere'
  }

  /** Writes lanes and buckets as the decision left them. */
  save(): void {
    for (const lane of this.lanes.values()) if (lane.changed) this.#saveLane(lane)
    for (const bucket of this.buckets.values()) saveBucket(this.#context, bucket, this.nowUs)
  }

  #saveLane(lane: Lane): void {
    const { db } = this.#context
    if (lane.state === 'empty') {
      db.run(
        'UPDATE lanes SET state = 0, bucket = NULL, over = NULL, deputy_of = NULL, turn = ?, emptied = ? WHERE id = ?',
        lane.turn,
        this.nowUs,
        lane.id,
      )
    } else if (lane.state === 'open') {
      db.run(
        'UPDATE lanes SET state = 1, bucket = NULL, over = NULL, deputy_of = NULL, priority = ?, head = ?, turn = ? WHERE id = ?',
        lane.priority,
        lane.head,
        lane.turn,
        lane.id,
      )
    } else {
      db.run(
        'UPDATE lanes SET state = 2, bucket = ?, over = ?, deputy_of = ?, priority = ?, head = ?, turn = ? WHERE id = ?',
        lane.on?.id ?? null,
        overOf(lane),
        lane.deputyOf?.id ?? null,
        lane.priority,
        lane.head,
        lane.turn,
        lane.id,
      )
    }
  }

  /** Starts that the lane's buckets could admit at once, at one unit each: no more heads than that are worth loading. */
  #grantable(lane: Lane): number {
    let most = this.#shares.get(lane.queue)?.slots ?? 0
    for (const { policy, state, active } of lane.buckets)
      most = Math.min(most, policy ? couldGrant(policy, state, active, this.nowUs) : 0)
    return most
  }

  #read(lane: number, after: Head | undefined, count: number): Head[] {
    const { db } = this.#context
    if (!after) return db.all<HeadRow>(`${HEADS} ORDER BY priority DESC, seq LIMIT ?`, lane, count).map(toHead)
    const same = db.all<HeadRow>(
      `${HEADS} AND priority = ? AND seq > ? ORDER BY seq LIMIT ?`,
      lane,
      after.priority,
      after.seq,
      count,
    )
    const lower =
      same.length < count
        ? db.all<HeadRow>(
            `${HEADS} AND priority < ? ORDER BY priority DESC, seq LIMIT ?`,
            lane,
            after.priority,
            count - same.length,
          )
        : []
    return [...same, ...lower].map(toHead)
  }

  #group(bucket: number, queue: number, over: string): LineGroup {
    let rows: LaneRow[] = []
    let at = 0
    let skipped = 0
    const refill = (): void => {
      skipped += rows.length
      at = 0
      rows = this.#context.db.all<LaneRow>(
        `SELECT ${LANE_COLUMNS} FROM lanes WHERE bucket = ? AND state = ${LANE.waiting} AND queue = ? AND over = ? ORDER BY priority DESC, turn, head LIMIT ? OFFSET ?`,
        bucket,
        queue,
        over,
        skipped === 0 ? 2 : ROWS_AT_ONCE + skipped,
        skipped,
      )
    }
    refill()
    return {
      queue,
      over: over === DEPUTY ? [] : over === '' ? [] : over.split(',').map(Number),
      peek: () => (rows[at] ? this.#lane(rows[at] as LaneRow) : null),
      advance: () => {
        if (++at >= rows.length && rows.length > 0) refill()
      },
    }
  }

  #lane(row: LaneRow): Lane {
    const [id, queue, buckets, state, on, deputyOf, priority, turn, head] = row
    const known = this.lanes.get(id)
    if (known) return known
    const lane: Lane = {
      id,
      queue,
      priority,
      turn,
      head,
      buckets: (JSON.parse(buckets) as number[]).map((bucket) => this.bucket(bucket)),
      state: state === LANE.open ? 'open' : state === LANE.waiting ? 'waiting' : 'empty',
      on: on === null ? null : this.bucket(on),
      deputyOf: deputyOf === null ? null : this.bucket(deputyOf),
      heads: [],
      next: 0,
      changed: false,
    }
    this.lanes.set(id, lane)
    return lane
  }
}

/** Deputies stand in a group of their own: they are never held. */
const DEPUTY = '!'

/** The group of a lane within the line it stands in: the other buckets that it shares with many lanes. */
function overOf(lane: Lane): string {
  if (lane.deputyOf) return DEPUTY
  return lane.buckets
    .filter((bucket) => bucket !== lane.on && (bucket as StoredBucket).lanes >= SHARED_BY)
    .map((bucket) => bucket.id)
    .sort((a, b) => a - b)
    .join(',')
}

function toHead([seq, priority, weights, attempt, sinceUs]: HeadRow): Head {
  return { seq, priority, weights: weights === null ? null : (JSON.parse(weights) as number[]), attempt, sinceUs }
}
