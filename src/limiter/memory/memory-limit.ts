import { isCold } from '../../policy/limits/bucket.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { Timeline } from '../../policy/limits/timeline.ts'
import { endEvents, kept, type LimitEvent } from '../ledger/changes.ts'
import { MemoryBucket } from './memory-bucket.ts'

/** Buckets that a new one looks at: the cold ones among them are forgotten. */
const LOOKED_AT = 2

/** One limit in memory: its changes and its buckets. */
export class MemoryLimit {
  readonly #name: string
  readonly #buckets = new Map<string, MemoryBucket>()
  readonly #wallOffsetUs: () => number
  #events: readonly LimitEvent[] = []
  #sweep: Iterator<[string, MemoryBucket]> | null = null
  timeline: Timeline = new Timeline([])

  constructor(name: string, wallOffsetUs: () => number) {
    this.#name = name
    this.#wallOffsetUs = wallOffsetUs
  }

  /** The number of buckets that are kept. */
  get size(): number {
    return this.#buckets.size
  }

  add(...events: readonly LimitEvent[]): void {
    if (events.length === 0) return
    this.#events = kept([...this.#events, ...events])
    this.timeline = new Timeline(this.#events)
  }

  /** Ends the overrides and pauses that are over. */
  endOverdue(nowUs: number): void {
    if (this.timeline.nextEndUs <= nowUs) this.add(...endEvents(this.timeline, nowUs))
  }

  /** The bucket of a key, as of now and under the policy in force; null: the limit is not defined. */
  bucket(key: string, nowUs: number): MemoryBucket | null {
    this.endOverdue(nowUs)
    const bucket = this.#buckets.get(key)
    if (!bucket) return this.#create(key, nowUs)
    if (bucket.revision !== this.timeline.revision) this.#carry(bucket, nowUs)
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
    const bucket = new MemoryBucket(this.#name, key, this.#onTheWall(policy), state, revision)
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
        return
      }
      const [key, bucket] = next.value
      bucket.endLeases(nowUs)
      if (isCold(bucket.policy, bucket.state, bucket.active, nowUs)) this.#buckets.delete(key)
    }
  }

  #onTheWall(policy: LimitPolicy): LimitPolicy {
    const { rule } = policy
    if (rule?.kind !== 'fixed' || rule.window.align !== 'calendar') return policy
    return { ...policy, rule: { ...rule, window: { ...rule.window, wallOffsetUs: this.#wallOffsetUs() } } }
  }
}
