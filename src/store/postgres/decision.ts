import type { AdmissionSource } from '../../policy/admission/admission-source.ts'
import { encodeBucket } from '../../policy/limits/bucket-codec.ts'
import type { Bucket, Head, Lane, UnlistedJob } from '../../policy/admission/lane.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { refusesNow, waitsElsewhere, WATCHED_AT_MOST, type WatchedLane } from '../../policy/admission/drop-watch.ts'
import type { WaitListGroup, QueueService } from '../../policy/admission/wait-list.ts'
import { decodeScanCursor, isBehind } from '../../policy/admission/scan-cursor.ts'
import { type KnownTasks, withPassed } from '../contract/known-tasks.ts'
import type { Timelines } from '../shared/timelines.ts'
import type { StoredBucket } from '../shared/stored-bucket.ts'
import { bucketOf } from './buckets.ts'
import { columnsOf } from './columns.ts'
import type { QueueNumbers } from './context.ts'
import {
  addTo,
  deputiesAmong,
  Depths,
  grouped,
  type HeadRow,
  type LaneRow,
  lineOf,
  needBucket,
  type ReadSet,
  ReadMiss,
  type ReadPlan,
  toHead,
} from './read-set.ts'
import { bucketsOver, overOf } from '../shared/lane-group.ts'
import { isOfTickets } from '../contract/budgets.ts'
import { LanesRead } from '../shared/lanes-read.ts'
import { laneAsWritten, type LaneColumns, laneColumns } from './save-lane.ts'
import { sharedQueue, stripeName, unstriped } from './own.ts'
import { deeper } from './read-ahead.ts'
import type { Yields } from '../shared/yields.ts'
import { LANE } from '../shared/state.ts'
import { UnlistedTasks } from './unlisted-tasks.ts'

/** The most heads that one deep claim makes the next ones read. */
const HEADS_REMEMBERED = 64

/** A bucket as a claim writes it; without a state, its state and revision stay. */
type ChangedBucket = readonly [
  id: number,
  wakeAt: number | null,
  state: string | null,
  revision: number,
  active: number,
  deferred: number,
  told: number | null,
]

/** One claim's view of the rows read under its locks. It throws `ReadMiss` if the decision needs more rows. */
export class Decision extends LanesRead implements AdmissionSource {
  readonly nowUs: number
  readonly #read: ReadSet
  readonly #plan: ReadPlan
  readonly #limits: Timelines
  readonly #queues: QueueNumbers
  readonly #rows: ReadonlyMap<number, LaneRow>
  readonly #depths: ReadonlyMap<number, number>
  readonly #bucketRows: ReadonlyMap<number, NonNullable<ReadSet['buckets']>[number]>
  readonly #heads: ReadonlyMap<number, HeadRow<number>[]>
  readonly #behind: ReadonlyMap<number, HeadRow<number>[]>
  readonly #line: ReadonlyMap<string, HeadRow<string>[]>
  readonly #lined: ReadonlySet<number>
  readonly #inOrder: ReadonlySet<number>
  /** The rows of each wait list, and of its deputies, by bucket. */
  readonly #lists = new Map<number, LaneRow[]>()
  readonly #deputies: ReturnType<typeof deputiesAmong>
  readonly #deep: ReadonlySet<number>
  readonly #live: ReadonlySet<string>
  readonly #apart: ReadonlySet<string>
  readonly #openIds: ReadonlySet<number>
  /** How far it has gone in wait lists. */
  readonly deepest: Depths = new Depths()
  #mostHeads = 0
  #mostOpenHeads = 0
  /** Jobs that this claimer does not take. */
  readonly unlistedTasks: UnlistedTasks
  readonly #known: KnownTasks | null

  readonly yieldedSince: AdmissionSource['yieldedSince']

  /** @param known the tasks whose jobs may start; null: any. @param yields the claimers to let go first; null: none */
  constructor(
    read: ReadSet,
    plan: ReadPlan,
    limits: Timelines,
    queues: QueueNumbers,
    known: KnownTasks | null,
    yields: Yields | null,
  ) {
    super()
    this.nowUs = read.now
    this.#known = known
    this.unlistedTasks = new UnlistedTasks(read, plan)
    if (known && yields) this.yieldedSince = ({ id }, seq) => yields.since(known, id, seq, read.now)
    this.#read = read
    this.#plan = plan
    this.#limits = limits
    this.#queues = queues
    const rows = [...(read.lanes ?? []), ...(read.deputies ?? [])]
    this.#rows = new Map(rows.map((row) => [row[0], row]))
    this.#depths = new Map((read.lanes ?? []).map((row, i) => [row[0], read.depths?.[i] ?? 0]))
    this.#bucketRows = new Map((read.buckets ?? []).map((row) => [row[0], row]))
    this.#heads = grouped(read.heads)
    this.#behind = grouped(read.behind)
    this.#line = grouped(read.line)
    this.#lined = new Set(read.lined)
    this.#inOrder = new Set(read.inOrder)
    this.#deputies = deputiesAmong(rows)
    for (const [i, on] of read.lineBuckets.entries()) addTo(this.#lists, on, this.#row(read.lineLanes[i] as number))
    this.#deep = new Set(plan.lanes)
    this.#live = new Set(read.live)
    this.#apart = new Set(read.apart)
    this.#openIds = new Set(read.open)
  }

  /** The most jobs of one waiting lane that it has requested. */
  get mostHeads(): number {
    return this.#mostHeads
  }

  /** The most jobs of one open lane that it has requested. */
  get mostOpenHeads(): number {
    return this.#mostOpenHeads
  }

  bucket(id: number): StoredBucket {
    let bucket = this.buckets.get(id)
    if (bucket) return bucket
    const row = this.#bucketRows.get(id)
    if (!row) throw needBucket(id)
    bucket = bucketOf(this.#limits, row, { nowUs: this.nowUs, wallUs: this.#read.wall })
    this.buckets.set(id, bucket)
    return bucket
  }

  /** Every open lane that was read, in turn. */
  openLanes(): Lane[] {
    return this.#read.open.flatMap((id) => {
      // A lane whose first jobs are all locked stays unchanged: it is not empty.
      const lane = this.#lane(id)
      return this.#plan.skip.length > 0 && !this.#heads.has(id) ? [] : [lane]
    })
  }

  dueBuckets(): StoredBucket[] {
    return this.#read.due.map((id) => this.bucket(id))
  }

  heads(lane: Lane, count: number): Head[] {
    const read = this.#headsRead(lane.id)
    const rows = this.#headsOf(lane, read)
    const found = rows.slice(lane.loaded, lane.loaded + count)
    const ended = rows.length < read
    const loaded = Math.min(lane.loaded + found.length, HEADS_REMEMBERED)
    if (this.#openIds.has(lane.id)) this.#mostOpenHeads = Math.max(this.#mostOpenHeads, loaded)
    else if (loaded > 1) this.#mostHeads = Math.max(this.#mostHeads, loaded)
    if (found.length === 0 && !ended && count > 0) throw this.#needJobs(lane, lane.loaded + count + 1)
    return found.map(toHead)
  }

  /** Jobs for other workers count in the wait lists of queues that this claimer does not serve. */
  #headsOf(lane: Lane, read: number): HeadRow<number>[] {
    const rows = this.#heads.get(lane.id) ?? []
    if (!this.shares.has(lane.queue)) return rows
    return this.unlistedTasks.ofLane(lane.id, sharedQueue(this.#queues.name(lane.queue)), rows, read)
  }

  /** The first unlisted job of a lane whose first jobs were read; null: there is none, or they were not read. */
  unlisted(lane: Lane): UnlistedJob | null {
    return this.unlistedTasks.of(lane.id)
  }

  behind(lane: Lane, priority: number, seq: number, count: number): Head[] {
    const [, , , , , , , , , , , , sieve] = this.#row(lane.id)
    const place = { priority, seq }
    // The rows begin at the lane's first job, and behind the last one that an earlier late scan read.
    const sifted = sieve === null ? null : decodeScanCursor(sieve)
    const further = sifted !== null && (isBehind(sifted, place) || (sifted.priority === priority && sifted.seq === seq))
    const rows = (further ? this.#behind : this.#heads).get(lane.id) ?? []
    const depth = further ? this.#depth(lane.id) : this.#headsRead(lane.id)
    const found = rows.slice(0, depth).filter((row) => isBehind(place, { seq: row[1], priority: row[2] }))
    if (found.length < count && rows.length >= depth) throw this.#needJobs(lane, rows.length + count + 1)
    // A job that this claimer cannot start makes none of its jobs late.
    const some =
      this.shares.has(lane.queue) && this.unlistedTasks.note(lane.id, sharedQueue(this.#queues.name(lane.queue)), found)
    return found
      .slice(0, count)
      .filter((row) => !some || typeof row[7] !== 'string')
      .map(toHead)
  }

  /**
   * Requests more jobs of this lane, and of all others with more jobs whose limits make a decision read all of them. An
   * open lane with more starts than expected is one of several: those that rank as high may have as many.
   */
  #needJobs(lane: Lane, needed: number): ReadMiss {
    const isOpen = this.#openIds.has(lane.id)
    const like = [...this.#rows.values()].filter(
      ([id, , buckets, , , , priority]) =>
        (this.#heads.get(id)?.length ?? 0) >= this.#headsRead(id) &&
        ((isOpen && this.#openIds.has(id) && priority >= lane.priority) ||
          buckets.some((bucket) => this.#bucketRows.has(bucket) && goesThrough(this.bucket(bucket).policy))),
    )
    const lanes = [...new Set([...this.#plan.lanes, lane.id, ...like.map(([id]) => id)])]
    return new ReadMiss(`${needed} jobs of a lane`, (plan) => ({
      ...plan,
      lanes,
      deputiesApart: plan.deputiesApart && this.#headsRead(lane.id) > 0,
      deepHeads: Math.max(plan.deepHeads, Math.min(2 * needed, 8 * Math.max(8, plan.deepHeads))),
    }))
  }

  #headsRead(lane: number): number {
    return this.#depths.get(lane) ?? 0
  }

  #depth(lane: number): number {
    const { heads, deepHeads } = this.#plan
    return this.#deep.has(lane) ? Math.max(heads, deepHeads) : heads
  }

  unlimitedLane(queue: number, skip: number, count: number): Head[] {
    const name = this.#queues.name(queue)
    const rows = this.#line.get(name) ?? []
    return this.unlistedTasks
      .ofLine(name, rows, rows.length)
      .slice(skip, skip + count)
      .map(toHead)
  }

  groups(bucket: Bucket): WaitListGroup[] {
    if (!this.#lined.has(bucket.id)) throw needBucket(bucket.id)
    const groups = new Map<string, LaneRow[]>()
    const inOrder = this.#inOrder.has(bucket.id)
    for (const row of this.#lists.get(bucket.id) ?? []) addTo(groups, inOrder ? row[1] : `${row[9]} ${row[1]}`, row)
    return [...groups.values()].map((rows) => this.#group(bucket, rows, inOrder))
  }

  deputyBuckets(bucket: Bucket): number[] {
    if (!this.#lined.has(bucket.id)) throw needBucket(bucket.id)
    return [...(this.#deputies.get(bucket.id)?.keys() ?? [])]
  }

  deputies(bucket: Bucket, on: number): Lane[] {
    return (this.#deputies.get(bucket.id)?.get(on) ?? []).map(([id]) => this.#lane(id))
  }

  served(queue: number): QueueService {
    if (this.shares.has(queue)) return 'here'
    const name = unstriped(this.#queues.name(queue))
    // A stripe that this claim has not locked: another claim of this process serves it.
    if (this.shares.has(this.#queues.of(name))) return 'elsewhere'
    return this.#live.has(name) ? 'elsewhere' : this.#apart.has(name) ? 'apart' : 'nowhere'
  }

  ofCalls(queue: number): boolean {
    return isOfTickets(this.#queues.name(queue))
  }

  watched(bucket: Bucket, anywhere = false): WatchedLane[] {
    const rows = (this.#read.watched ?? []).filter(([of, , , here]) => of === bucket.id && (here || anywhere))
    return rows.map(([, need, id]) => ({
      need,
      lane: () => {
        if (this.#depths.has(id)) return this.#lane(id)
        const wanted = bucket.policy?.of ? rows : rows.filter(([, each]) => refusesNow(bucket, each, this.nowUs))
        throw new ReadMiss('lanes that a bucket watches', (plan) => ({
          ...plan,
          lanes: [...new Set([...plan.lanes, ...wanted.map(([, , lane]) => lane)])],
        }))
      },
    }))
  }

  needsElsewhere(bucket: Bucket): number[] {
    const rows = (this.#read.watched ?? []).filter(([of]) => of === bucket.id)
    return this.needsOf(
      bucket,
      rows.map(([, need, id]) => [need, id]),
    )
  }

  isWatched(bucket: Bucket): boolean {
    for (const lane of this.lanes.values()) if (waitsElsewhere(lane, bucket)) return true
    const rows = (this.#read.watched ?? []).filter(([of]) => of === bucket.id)
    return rows.length >= WATCHED_AT_MOST || rows.some(([, , id]) => !this.lanes.has(id))
  }

  /** The lanes and buckets that the decision changed, as the statements that write them take them. */
  changes(): { readonly lanes: string; readonly columns: string[]; readonly count: number } {
    const { plain, others } = this.#changedLanes()
    const buckets = this.#changedBuckets()
    return {
      lanes: JSON.stringify(others),
      columns: [...columnsOf(plain, 10), ...columnsOf(buckets, 7)],
      count: plain.length + others.length + buckets.length,
    }
  }

  /** The lanes that only moved to another group, and these groups. */
  regrouped(): { readonly ids: number[]; readonly over: string[] } {
    const lanes = [...this.lanes.values()].filter((lane) => lane.regrouped && !lane.changed)
    return { ids: lanes.map(({ id }) => id), over: lanes.map((lane) => overOf(lane)) }
  }

  /** Most lanes are not parked, and watch no bucket. */
  #changedLanes(): { readonly plain: readonly LaneColumns[]; readonly others: readonly unknown[] } {
    const plain: LaneColumns[] = []
    const others: unknown[] = []
    // Locked jobs may come back: their lane is not empty, although the decision can take nothing from it now.
    const held = this.#plan.skip.length > 0
    for (const lane of this.lanes.values()) {
      if (!lane.changed) continue
      const row = laneColumns(lane, held)
      if (row) plain.push(row)
      else others.push(laneAsWritten(lane, held, this.#passedOf(lane)))
    }
    return { plain, others }
  }

  #passedOf({ id, state }: Lane): string | null {
    const row = this.#row(id)
    return state === 'parked' && this.#known ? withPassed(row[3] === LANE.parked ? row[13] : null, this.#known) : null
  }

  /** For `sluice.write_buckets`. */
  #changedBuckets(): ChangedBucket[] {
    const changed: ChangedBucket[] = []
    for (const bucket of this.buckets.values()) {
      const { id, limit, wakeAtUs, active, state, deferred, toldUs } = bucket
      if (!bucket.changed && wakeAtUs === bucket.wokeAtUs && !bucket.counted) continue
      const stored = bucket.changed ? encodeBucket(state) : null
      changed.push([id, wakeAtUs, stored, this.#limits.timeline(limit).revision, active, deferred, toldUs])
    }
    return changed
  }

  /** A lane of a locked stripe is one of its queue; to this claim, another stripe is another queue. */
  #queueOf(stored: string): number {
    const { stripes } = this.#read
    const isLocked = stripes?.[0].includes(stripeName(stored)) ?? false
    return this.#queues.of(isLocked ? unstriped(stored) : stored)
  }

  #group({ id }: Bucket, rows: readonly LaneRow[], inOrder: boolean): WaitListGroup {
    const [first] = rows
    const group = inOrder ? null : (first?.[9] ?? '')
    const depth = lineOf(this.#plan, id, group)
    let at = 0
    return {
      front: () => {
        // Behind those that were read, there may be more.
        const row = rows[at] ?? (rows.length < depth ? undefined : rows.at(-1))
        return row ? { id: row[0], priority: row[6], turn: row[7], head: row[8] } : null
      },
      queue: this.#queueOf(first?.[1] ?? ''),
      over: group === null ? null : bucketsOver(group),
      peek: () => {
        const row = rows[at]
        this.deepest.reach(id, group, at + 1)
        if (row) return this.#lane(row[0])
        if (rows.length < depth) return null
        throw new ReadMiss('more of a line', (plan) => deeper(plan, id, group))
      },
      advance: () => void at++,
    }
  }

  #row(id: number): LaneRow {
    const row = this.#rows.get(id)
    if (!row) throw new RangeError(`Lane ${id} stands in a wait list, but it was not read`)
    return row
  }

  #lane(laneId: number): Lane {
    const known = this.lanes.get(laneId)
    if (known) return known
    const row = this.#row(laneId)
    const [id, queue, buckets, state, on, deputyOf, priority, turn, head, , share, taken, scanCursor] = row
    const fields = { id, queue: this.#queueOf(queue), priority, turn, taken, share, head }
    return this.add(fields, { buckets, state, on, deputyOf, scanCursor })
  }
}

/** Whether a refusal by it also concerns the jobs behind a head. */
function goesThrough(policy: LimitPolicy | null): boolean {
  return policy !== null && (policy.onLimit !== 'wait' || policy.maxWaitUs !== null)
}
