import { outsideUntil } from '../limits/guarantee.ts'
import { comesToBeGuaranteed, waitsElsewhere, type WatchSource } from './drop-watch.ts'
import { isGuaranteed, isWithin, sink } from './guaranteed.ts'
import { type Bucket, type Head, type Lane, NEVER_US } from './lane.ts'

/**
 * Lanes that wait for a common limit outside their guarantee. At the instant at which their guarantee admits them, they
 * go before all others there. The bucket that guarantees wakes a claim then, although no lane need be in its wait list.
 */
export class GuaranteeWatch {
  /** The buckets whose lanes elsewhere were examined or have changed. */
  readonly #changed = new Set<Bucket>()

  /** The lanes with a guarantee in a bucket that were offered while they were open: no wait list ranks them. */
  readonly #open = new Map<Bucket, Set<Lane>>()

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

  /** Notes an open lane that is offered. */
  offers(lane: Lane): void {
    for (const { policy } of lane.buckets)
      if (policy?.of)
        for (const common of lane.buckets) if (common.limit === policy.of.limit) this.#openIn(common).add(lane)
  }

  /** An open lane that goes before this one: it is within its guarantee in a bucket where this one is not. Null: none. */
  before(lane: Lane, nowUs: number, headOf: (lane: Lane) => Head | null): Lane | null {
    if (this.#open.size === 0) return null
    for (const common of lane.buckets) {
      const others = this.#open.get(common)
      if (!others || others.size === 0 || (isGuaranteed(lane) && lane.on === common)) continue
      if (isWithin(lane, headOf(lane), common, nowUs)) continue
      for (const other of others) {
        // It is noted again when it is offered again.
        others.delete(other)
        if (other !== lane && other.state === 'open' && isWithin(other, headOf(other), common, nowUs)) return other
      }
    }
    return null
  }

  #openIn(common: Bucket): Set<Lane> {
    let lanes = this.#open.get(common)
    if (!lanes) this.#open.set(common, (lanes = new Set()))
    return lanes
  }
}
