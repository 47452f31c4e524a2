import type { AdmissionSource } from '../../policy/admission.ts'
import { encodeBucket } from '../../policy/bucket.ts'
import type { Bucket, Head, Lane } from '../../policy/lane.ts'
import type { LineGroup, Served } from '../../policy/line.ts'
import type { QueueShare } from '../../policy/queue-share.ts'
import type { Timelines } from '../timelines.ts'
import { bucketOf, type StoredBucket } from './buckets.ts'
import type { QueueNumbers } from './context.ts'
import { type HeadRow, type LaneRow, type Look, NotRead, type Portion } from './look.ts'
import { LANE } from './state.ts'

/** A bucket that so many lanes need groups the lines of others: its lanes can be held together behind one deputy. */
const SHARED_BY = 16
const DEPUTY = '!'
/** A bound on what one claim that goes deep makes the next ones read. */
const HEADS_REMEMBERED = 64

/** One claim's view of what was read under its locks. Asked for more than that, it throws `NotRead`. */
export class Decision implements AdmissionSource {
  readonly nowUs: number
  readonly lanes: Map<number, Lane> = new Map()
  readonly buckets: Map<number, StoredBucket> = new Map()
  readonly #waitedOn: Map<Lane, StoredBucket> = new Map()
  readonly #look: Look
  readonly #portion: Portion
  readonly #limits: Timelines
  readonly #queues: QueueNumbers
  readonly #rows: ReadonlyMap<number, LaneRow>
  readonly #bucketRows: ReadonlyMap<number, NonNullable<Look['buckets']>[number]>
  readonly #heads: ReadonlyMap<number, HeadRow<number>[]>
  readonly #line: ReadonlyMap<string, HeadRow<string>[]>
  readonly #lined: ReadonlySet<number>
  readonly #deep: ReadonlySet<number>
  readonly #live: ReadonlySet<string>
  readonly #openIds: ReadonlySet<number>
  #shares: ReadonlyMap<number, QueueShare> = new Map()
  #deepest = 0
  #mostHeads = 0
  readonly #openHeads: number

  constructor(look: Look, portion: Portion, limits: Timelines, queues: QueueNumbers) {
    this.nowUs = look.now
    this.#look = look
    this.#portion = portion
    this.#limits = limits
    this.#queues = queues
    this.#rows = new Map((look.lanes ?? []).map((row) => [row[0], row]))
    this.#bucketRows = new Map((look.buckets ?? []).map((row) => [row[0], row]))
    this.#heads = grouped(look.heads)
    this.#line = grouped(look.line)
    this.#lined = new Set(look.lined)
    this.#deep = new Set(portion.lanes)
    this.#live = new Set(look.live)
    this.#openIds = new Set(look.open)
    this.#openHeads = 1 + Math.ceil(portion.slots / Math.max(1, look.open.length))
  }

  /** How far into a line the decision has looked. */
  get deepest(): number {
    return this.#deepest
  }

  /** How many jobs of a lane in a line it has asked for. */
  get mostHeads(): number {
    return this.#mostHeads
  }

  /** Says which queues the decision is for. */
  serve(shares: readonly QueueShare[]): void {
    this.#shares = new Map(shares.map((share) => [share.queue, share]))
  }

  bucket(id: number): StoredBucket {
    let bucket = this.buckets.get(id)
    if (bucket) return bucket
    const row = this.#bucketRows.get(id)
    if (!row) throw needBucket(id)
    bucket = bucketOf(this.#limits, row, { nowUs: this.nowUs, wallUs: this.#look.wall })
    this.buckets.set(id, bucket)
    return bucket
  }

  /** The bucket in whose line a lane stood when the decision began; null: in none. */
  waitedOn(lane: Lane): StoredBucket | null {
    return this.#waitedOn.get(lane) ?? null
  }

  /** Every open lane that was read, in turn. */
  openLanes(): Lane[] {
    return this.#look.open.flatMap((id) => {
      // A lane whose first jobs are all held by others stays as it is: it is not empty.
      const lane = this.#lane(id)
      return this.#portion.skip.length > 0 && !this.#heads.has(id) ? [] : [lane]
    })
  }

  dueBuckets(): StoredBucket[] {
    return this.#look.due.map((id) => this.bucket(id))
  }

  heads(lane: Lane, count: number): Head[] {
    const rows = this.#heads.get(lane.id) ?? []
    const read = this.#headsRead(lane.id)
    const found = rows.slice(lane.loaded, lane.loaded + count)
    const ended = rows.length < read
    const short = found.length === 0 || (found.length < count && lane.buckets.some((each) => each.policy?.maxWaitUs))
    if (lane.loaded + found.length > 1 && !this.#openIds.has(lane.id))
      this.#mostHeads = Math.max(this.#mostHeads, Math.min(lane.loaded + found.length, HEADS_REMEMBERED))
    if (short && !ended && count > 0) {
      const needed = lane.loaded + count + 1
      throw new NotRead(`${needed} jobs of a lane`, (portion) => ({
        ...portion,
        lanes: [...portion.lanes, lane.id],
        deepHeads: Math.max(portion.deepHeads, 2 * needed),
      }))
    }
    return found.map(toHead)
  }

  #headsRead(lane: number): number {
    const { heads, deepHeads } = this.#portion
    const read = this.#openIds.has(lane) ? Math.max(heads, this.#openHeads) : heads
    return this.#deep.has(lane) ? Math.max(read, deepHeads) : read
  }

  openLine(queue: number, skip: number, count: number): Head[] {
    return (this.#line.get(this.#queues.name(queue)) ?? []).slice(skip, skip + count).map(toHead)
  }

  groups(bucket: Bucket): LineGroup[] {
    if (!this.#lined.has(bucket.id)) throw needBucket(bucket.id)
    const groups = new Map<string, LaneRow[]>()
    for (const [i, on] of this.#look.lineBuckets.entries()) {
      if (on !== bucket.id) continue
      const row = this.#row(this.#look.lineLanes[i] as number)
      const name = JSON.stringify([row[1], row[9]])
      const rows = groups.get(name)
      if (rows) rows.push(row)
      else groups.set(name, [row])
    }
    return [...groups.values()].map((rows) => this.#group(rows))
  }

  deputies(bucket: Bucket): Lane[] {
    if (!this.#lined.has(bucket.id)) throw needBucket(bucket.id)
    return [...this.#rows.values()].filter((row) => row[5] === bucket.id).map((row) => this.#lane(row[0]))
  }

  served(queue: number): Served {
    if (this.#shares.has(queue)) return 'here'
    return this.#live.has(this.#queues.name(queue)) ? 'elsewhere' : 'nowhere'
  }

  /** The lanes that the decision changed, as they are written. */
  changedLanes(): unknown[] {
    const changed: unknown[] = []
    for (const lane of this.lanes.values()) {
      if (!lane.changed) continue
      const { id, state, on, deputyOf, priority, head, turn, taken } = lane
      // Jobs that somebody else holds may come back: their lane is not empty, only nothing of it can be had now.
      const emptied = state === 'empty' && this.#portion.skip.length === 0
      const stored = emptied ? LANE.empty : state === 'waiting' ? LANE.waiting : LANE.open
      const waits = state === 'waiting'
      changed.push([
        id,
        stored,
        waits ? (on?.id ?? null) : null,
        waits ? overOf(lane) : '',
        deputyOf?.id ?? null,
        priority,
        head,
        turn,
        emptied ? 0 : taken,
      ])
    }
    return changed
  }

  /** The buckets that the decision changed, as they are written. */
  changedBuckets(): unknown[] {
    const changed: unknown[] = []
    for (const bucket of this.buckets.values()) {
      const { id, limit, wakeAtUs, active, state, deferred, toldUs } = bucket
      if (bucket.changed)
        changed.push([
          id,
          wakeAtUs,
          encodeBucket(state),
          this.#limits.timeline(limit).revision,
          active,
          deferred,
          toldUs,
        ])
      else if (wakeAtUs !== bucket.wokeAtUs || bucket.counted)
        changed.push([id, wakeAtUs, null, 0, active, deferred, toldUs])
    }
    return changed
  }

  #group(rows: readonly LaneRow[]): LineGroup {
    const [first] = rows
    const over = first?.[9] ?? ''
    let at = 0
    return {
      queue: this.#queues.of(first?.[1] ?? ''),
      over: over === DEPUTY || over === '' ? [] : over.split(',').map(Number),
      peek: () => {
        const row = rows[at]
        this.#deepest = Math.max(this.#deepest, at + 1)
        if (row) return this.#lane(row[0])
        if (rows.length < this.#portion.line) return null
        throw new NotRead('more of a line', (portion) => ({ ...portion, line: 4 * portion.line }))
      },
      advance: () => void at++,
    }
  }

  #row(id: number): LaneRow {
    const row = this.#rows.get(id)
    if (!row) throw new RangeError(`Lane ${id} stands in a line, but it was not read`)
    return row
  }

  #lane(laneId: number): Lane {
    const known = this.lanes.get(laneId)
    if (known) return known
    const [id, queue, buckets, state, on, deputyOf, priority, turn, head, , , share, taken] = this.#row(laneId)
    const lane: Lane = {
      id,
      queue: this.#queues.of(queue),
      priority,
      turn,
      taken,
      share,
      head,
      buckets: buckets.map((bucket) => this.bucket(bucket)),
      state: state === LANE.open ? 'open' : state === LANE.waiting ? 'waiting' : 'empty',
      on: on === null ? null : this.bucket(on),
      deputyOf: deputyOf === null ? null : this.bucket(deputyOf),
      heads: [],
      next: 0,
      loaded: 0,
      ended: false,
      changed: false,
    }
    this.lanes.set(id, lane)
    if (on !== null) this.#waitedOn.set(lane, this.bucket(on))
    return lane
  }
}

/** The group of a lane within the line it stands in: the other buckets that it shares with many lanes. Deputies have one of their own. */
function overOf(lane: Lane): string {
  if (lane.deputyOf) return DEPUTY
  return lane.buckets
    .filter((bucket) => bucket !== lane.on && (bucket as StoredBucket).lanes >= SHARED_BY)
    .map((bucket) => bucket.id)
    .sort((a, b) => a - b)
    .join(',')
}

function needBucket(id: number): NotRead {
  return new NotRead(`bucket ${id} and its line`, (portion) => ({
    ...portion,
    depth: portion.depth + 1,
    buckets: [...portion.buckets, id],
  }))
}

function grouped<Place>(rows: readonly HeadRow<Place>[] | null): Map<Place, HeadRow<Place>[]> {
  const groups = new Map<Place, HeadRow<Place>[]>()
  for (const row of rows ?? []) {
    const known = groups.get(row[0])
    if (known) known.push(row)
    else groups.set(row[0], [row])
  }
  for (const each of groups.values()) each.sort((a, b) => b[2] - a[2] || a[1] - b[1])
  return groups
}

function toHead([, seq, priority, weights, attempt, sinceUs, given]: HeadRow<unknown>): Head {
  return {
    seq,
    priority,
    given,
    weights: weights === null ? null : (JSON.parse(weights) as number[]),
    attempt,
    sinceUs,
  }
}
