import { Elsewhere } from '../../policy/admission/elsewhere.ts'
import { comesToBeGuaranteed, waitsElsewhere } from '../../policy/admission/drop-watch.ts'
import { type Bucket, type Head, type Lane, weightOf } from '../../policy/admission/lane.ts'
import type { QueueSlots } from '../../policy/admission/queue-slots.ts'
import { decodeScanCursor } from '../../policy/admission/scan-cursor.ts'
import { LANE } from './state.ts'
import type { StoredBucket } from './stored-bucket.ts'

/** The fields of a lane's own row. */
export type LaneFields = Pick<Lane, 'id' | 'queue' | 'priority' | 'turn' | 'taken' | 'share' | 'head'>

/** The buckets of a stored lane, and its state. */
export interface LaneRefs {
  readonly buckets: readonly number[]
  readonly state: number
  /** The bucket in whose wait list it stands. */
  readonly on: number | null
  readonly deputyOf: number | null
  readonly scanCursor: string | null
}

/** The lanes and buckets that a decision has read, each once. */
export abstract class LanesRead {
  readonly lanes: Map<number, Lane> = new Map()
  readonly buckets: Map<number, StoredBucket> = new Map()
  readonly #waitedOn = new Map<Lane, StoredBucket>()
  /** The starts that need units of a backend. */
  elsewhere: Elsewhere = new Elsewhere(undefined, 0)
  /** The queues that the decision serves, by their numbers. */
  shares: ReadonlyMap<number, QueueSlots> = new Map()

  abstract bucket(id: number): StoredBucket

  /** Sets the queues that the decision serves, and what its process knows of backends. */
  serve(shares: readonly QueueSlots[], elsewhere: Elsewhere): void {
    this.elsewhere = elsewhere
    this.shares = new Map(shares.flatMap((share) => [[share.queue, share] as const, [share.ownQueue, share] as const]))
  }

  /** The bucket in whose wait list a lane stood when the decision began; null: in none. */
  waitedOn(lane: Lane): StoredBucket | null {
    return this.#waitedOn.get(lane) ?? null
  }

  /**
   * The units that lanes need of a bucket that will guarantee them a share of the limit that they wait for.
   * @param rows the stored needs, by lane
   */
  protected needsOf(bucket: Bucket, rows: readonly (readonly [need: number, lane: number])[]): number[] {
    const stored = new Map(rows.map(([need, id]) => [id, need]))
    const needs = rows.flatMap(([need, id]) => (this.lanes.has(id) ? [] : [need]))
    for (const lane of this.lanes.values()) {
      if (!waitsElsewhere(lane, bucket) || !comesToBeGuaranteed(lane, bucket)) continue
      const head = lane.heads[lane.next]
      needs.push(head ? weightOf(head, lane.buckets.indexOf(bucket), bucket) : (stored.get(lane.id) ?? 1))
    }
    return needs
  }

  readonly #bucketsOf = (ids: readonly number[]): StoredBucket[] =>
    ids.map((id) => {
      const bucket = this.bucket(id)
      this.elsewhere.met(bucket)
      return bucket
    })

  /** Adds a lane that was read. */
  protected add(fields: LaneFields, { buckets, state, on, deputyOf, scanCursor }: LaneRefs): Lane {
    const lane: Lane = new ReadLane(fields, buckets, this.#bucketsOf)
    lane.state = state === LANE.open || state === LANE.parked ? 'open' : state === LANE.waiting ? 'waiting' : 'empty'
    if (on !== null) lane.on = this.bucket(on)
    if (deputyOf !== null) lane.deputyOf = this.bucket(deputyOf)
    if (scanCursor !== null) lane.scanCursor = decodeScanCursor(scanCursor)
    this.lanes.set(lane.id, lane)
    if (on !== null) this.#waitedOn.set(lane, this.bucket(on))
    return lane
  }
}

/** A lane that was read, and its buckets once they are asked for. */
class ReadLane implements Lane {
  readonly id: number
  readonly queue: number
  priority: number
  turn: number
  taken: number
  readonly share: number
  head: number
  readonly bucketIds: readonly number[]
  state: Lane['state'] = 'open'
  on: Bucket | null = null
  deputyOf: Bucket | null = null
  heads: Head[] = []
  next = 0
  loaded = 0
  ended = false
  readonly gone: Set<number> = new Set()
  scanCursor: Lane['scanCursor'] = null
  changed = false
  #buckets: readonly Bucket[] | null = null
  readonly #read: (ids: readonly number[]) => readonly Bucket[]

  constructor(fields: LaneFields, bucketIds: readonly number[], read: (ids: readonly number[]) => readonly Bucket[]) {
    this.id = fields.id
    this.queue = fields.queue
    this.priority = fields.priority
    this.turn = fields.turn
    this.taken = fields.taken
    this.share = fields.share
    this.head = fields.head
    this.bucketIds = bucketIds
    this.#read = read
  }

  get buckets(): readonly Bucket[] {
    return (this.#buckets ??= this.#read(this.bucketIds))
  }
}

/** A waiting job as a decision sees it. @param weights as JSON text */
export function headOf(
  seq: number,
  priority: number,
  given: number,
  weights: string | null,
  attempt: number,
  sinceUs: number,
  latestUs: number | null = null,
): Head {
  return {
    seq,
    priority,
    given,
    weights: weights === null ? null : (JSON.parse(weights) as number[]),
    attempt,
    sinceUs,
    latestUs,
  }
}
