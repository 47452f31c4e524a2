import { outsideUntil } from '../limits/guarantee.ts'
import { comesToBeGuaranteed, waitsElsewhere, type WatchSource } from './drop-watch.ts'
import { isGuaranteed, isWithin, sink } from './guaranteed.ts'
import { type Bucket, type Head, type Lane, NEVER_US } from './lane.ts'
import { TurnOrder } from './turn-order.ts'
import type { Candidate } from './wait-list.ts'

/**
 * Lanes that wait for a common limit outside their guarantee. At the instant at which their guarantee admits them, they
 * go before all others there. The bucket that guarantees wakes a claim then, although no lane need be in its wait list.
 */
export class GuaranteeWatch {
  /** The buckets whose lanes elsewhere were examined or have changed. */
  readonly #changed = new Set<Bucket>()

  /** The lanes with a guarantee in a bucket that were offered, but not by its own wait list, which ranks them. */
  readonly #offered = new Map<Bucket, TurnOrder<Candidate>>()
  /** The candidates that had their look before their turn. */
  readonly #seen = new Set<Candidate>()

  note(bucket: Bucket): void {
    if (bucket.policy?.of) this.#changed.add(bucket)
  }

  /** Examines the lanes of a due bucket. @param lift puts a lane first in its wait list */
  look(bucket: Bucket, source: WatchSource, nowUs: number, lift: (lane: Lane) => void): void {
    this.note(bucket)
    if (!bucket.policy?.of) return
    for (const { need, lane } of source.watched(bucket, true)) {
      if (outsideUntil(bucket.policy.of, bucket.state, bucket.active, nowUs, need) !== null) continue
      const waiting = lane()
      if (waitsElsewhere(waiting, bucket) && comesToBeGuaranteed(waiting, bucket)) lift(waiting)
    }
  }

  /** Sets when each bucket must be examined again. @param listed buckets whose wake time was set for their own lists */
  retime(listed: Iterable<Bucket>, source: WatchSource, nowUs: number): void {
    for (const bucket of listed) this.note(bucket)
    for (const bucket of this.#changed) {
      const { policy, state, active } = bucket
      for (const need of policy?.of ? source.needsElsewhere(bucket) : []) {
        const atUs = policy?.of && outsideUntil(policy.of, state, active, nowUs, need)
        bucket.wakeAtUs = Math.min(bucket.wakeAtUs ?? NEVER_US, atUs ?? nowUs)
      }
    }
  }

  /** Whether a waiting lane lost its place: it stood as one within its guarantee, which another start of its key used. */
  sinks(lane: Lane, nowUs: number, headOf: (lane: Lane) => Head | null): boolean {
    if (!lane.on || !isGuaranteed(lane)) return false
    const head = headOf(lane)
    if (!head || isWithin(lane, head, lane.on, nowUs)) return false
    sink(lane)
    for (const bucket of lane.buckets) this.note(bucket)
    return true
  }

  /** Notes a lane that is offered, and answers it. */
  noted(candidate: Candidate): Candidate {
    const { lane, waitList } = candidate
    for (const { policy } of lane.buckets)
      if (policy?.of)
        for (const common of lane.buckets)
          if (common.limit === policy.of.limit && common !== waitList?.bucket) this.#offeredIn(common).push(candidate)
    return candidate
  }

  /** Whether a candidate has had its look before its turn. */
  hadLook(candidate: Candidate): boolean {
    return this.#seen.size > 0 && this.#seen.delete(candidate)
  }

  /**
   * The first candidate that goes before this lane: it is within its guarantee in a bucket where this one is not. Null:
   * none.
   * @param passed lanes that let this one go first: guarantees in two common limits may put each of two before the other
   */
  before(lane: Lane, passed: readonly Lane[], nowUs: number, headOf: (lane: Lane) => Head | null): Candidate | null {
    if (this.#offered.size === 0) return null
    for (const common of lane.buckets) {
      const others = this.#offered.get(common)
      if (!others?.top || (isGuaranteed(lane) && lane.on === common)) continue
      if (isWithin(lane, headOf(lane), common, nowUs)) continue
      const crossed: Candidate[] = []
      let first: Candidate | null = null
      // A lane is noted again when it is offered again.
      while (!first) {
        const next = others.pop()
        if (!next) break
        if (next.lane === lane || !isStillOffered(next) || !isWithin(next.lane, headOf(next.lane), common, nowUs))
          continue
        if (passed.includes(next.lane)) crossed.push(next)
        else first = next
      }
      for (const each of crossed) others.push(each)
      if (first) this.#seen.add(first)
      if (first) return first
    }
    return null
  }

  #offeredIn(common: Bucket): TurnOrder<Candidate> {
    let lanes = this.#offered.get(common)
    if (!lanes) this.#offered.set(common, (lanes = new TurnOrder()))
    return lanes
  }
}

function isStillOffered({ lane, waitList, turn, head }: Candidate): boolean {
  const isInPlace = waitList ? waitList.queued && lane.on === waitList.bucket : lane.state === 'open'
  return isInPlace && lane.turn === turn && lane.head === head
}
