import { renewed } from '../../base/renewed.ts'
import { isCold } from '../../policy/limits/bucket.ts'
import { decodeBucket, encodeBucket } from '../../policy/limits/bucket-codec.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { Timeline } from '../../policy/limits/timeline.ts'
import { endEvents, kept, type LimitEvent } from '../ledger/changes.ts'
import { MemoryBucket } from './memory-bucket.ts'

/** Buckets that a new one looks at: the cold ones among them are forgotten. */
const LOOKED_AT = 2
/** Beyond this number, buckets that are not in use are kept as text, which takes a third of the memory. */
const LIVE_AT_MOST = 10_000

/** One limit in memory: its changes and its buckets. */
export class MemoryLimit {
  readonly name: string
  #buckets = new Map<string, MemoryBucket>()
  readonly #wallOffsetUs: () => number
  #events: readonly LimitEvent[] = []
  /** Buckets that are not in use: the revision and the state, as in `3 [0,…]`. */
  readonly #packed = new Map<string, string>()
  #sweep: Iterator<[string, MemoryBucket]> | null = null
  #packedSweep: Iterator<[string, string]> | null = null
  timeline: Timeline = new Timeline([])
  /** Of the timeline, which works them out at each question. */
  #revision = 0
  #nextEndUs = Infinity

  constructor(name: string, wallOffsetUs: () => number) {
    this.name = name
    this.#wallOffsetUs = wallOffsetUs
  }

  /** The number of buckets that are kept. */
  get size(): number {
    return this.#buckets.size + this.#packed.size
  }

  add(...events: readonly LimitEvent[]): void {
    if (events.length === 0) return
    this.#events = kept([...this.#events, ...events])
    this.timeline = new Timeline(this.#events)
    this.#revision = this.timeline.revision
    this.#nextEndUs = this.timeline.nextEndUs
  }

  /** Ends the overrides and pauses that are over. */
  endOverdue(nowUs: number): void {
    if (this.#nextEndUs <= nowUs) this.add(...endEvents(this.timeline, nowUs))
  }

  /** The bucket of a key, as of now and under the policy in force; null: the limit is not defined. */
  bucket(key: string, nowUs: number): MemoryBucket | null {
    this.endOverdue(nowUs)
    const bucket = this.#buckets.get(key) ?? this.#unpack(key)
    if (!bucket) return this.#create(key, nowUs)
    bucket.isIdle = false
    if (bucket.revision !== this.#revision) this.#carry(bucket, nowUs)
    bucket.endLeases(nowUs)
    const { rule } = bucket.policy
    // A calendar follows the wall clock, which may have stepped.
    if (rule?.kind === 'fixed' && rule.window.align === 'calendar') bucket.policy = this.#onTheWall(bucket.policy)
    return bucket
  }

  /** The bucket of a key, if it is kept. */
  known(key: string): MemoryBucket | undefined {
    return this.#buckets.get(key)
  }

  #create(key: string, nowUs: number): MemoryBucket | null {
    const { policy, revision } = this.timeline.at(key)
    const state = this.timeline.carry(key, null, 0, nowUs)
    if (!policy || !state) return null
    this.#forgetCold(nowUs)
    this.#forgetPacked(nowUs)
    const bucket = new MemoryBucket(this.name, key, this.#onTheWall(policy), state, revision)
    this.#buckets.set(key, bucket)
    return bucket
  }

  #carry(bucket: MemoryBucket, nowUs: number): void {
    const { policy, revision } = this.timeline.at(bucket.key)
    if (!policy) return
    bucket.state = this.timeline.carry(bucket.key, bucket.state, bucket.revision, nowUs) ?? bucket.state
    bucket.policy = this.#onTheWall(policy)
    bucket.revision = revision
  }

  /** Each new bucket makes up for two old ones, so a flood of keys leaves only those that still count. */
  #forgetCold(nowUs: number): void {
    for (let looked = 0; looked < LOOKED_AT; looked++) {
      this.#sweep ??= this.#buckets.entries()
      const next = this.#sweep.next()
      if (next.done === true) {
        this.#sweep = null
        this.#buckets = renewed(this.#buckets)
        return
      }
      const [key, bucket] = next.value
      bucket.endLeases(nowUs)
      if (isCold(bucket.policy, bucket.state, bucket.active, nowUs)) this.#buckets.delete(key)
      else if (bucket.isIdle && bucket.active === 0 && this.#buckets.size > LIVE_AT_MOST) this.#pack(bucket)
      else bucket.isIdle = true
    }
  }

  #forgetPacked(nowUs: number): void {
    for (let looked = 0; looked < LOOKED_AT && this.#packed.size > 0; looked++) {
      this.#packedSweep ??= this.#packed.entries()
      const next = this.#packedSweep.next()
      if (next.done === true) {
        this.#packedSweep = null
        return
      }
      const [key, text] = next.value
      const bucket = this.#read(key, text)
      if (bucket?.revision !== this.#revision) continue
      if (isCold(bucket.policy, bucket.state, 0, nowUs)) this.#packed.delete(key)
    }
  }

  #pack({ key, revision, state }: MemoryBucket): void {
    this.#buckets.delete(key)
    // Joined, the text is one piece; added up, V8 would keep its parts.
    this.#packed.set(key, [revision, encodeBucket(state)].join(' '))
  }

  #unpack(key: string): MemoryBucket | null {
    const text = this.#packed.size === 0 ? undefined : this.#packed.get(key)
    if (text === undefined) return null
    this.#packed.delete(key)
    const bucket = this.#read(key, text)
    if (bucket) this.#buckets.set(key, bucket)
    return bucket
  }

  #read(key: string, text: string): MemoryBucket | null {
    const space = text.indexOf(' ')
    const { policy } = this.timeline.at(key)
    const state = decodeBucket(text.slice(space + 1))
    return policy && new MemoryBucket(this.name, key, this.#onTheWall(policy), state, Number(text.slice(0, space)))
  }

  #onTheWall(policy: LimitPolicy): LimitPolicy {
    const { rule } = policy
    if (rule?.kind !== 'fixed' || rule.window.align !== 'calendar') return policy
    return { ...policy, rule: { ...rule, window: { ...rule.window, wallOffsetUs: this.#wallOffsetUs() } } }
  }
}
