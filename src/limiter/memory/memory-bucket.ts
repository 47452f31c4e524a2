import type { BucketState } from '../../policy/limits/bucket.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { LedgerBucket } from '../ledger/ledger.ts'

/** A bucket in memory. */
export class MemoryBucket implements LedgerBucket {
  readonly limit: string
  readonly key: string
  policy: LimitPolicy
  state: BucketState
  /** The limit's revision under which the state was last carried. */
  revision: number
  changed = false
  /** It was not used since the last look at it. */
  isIdle = false
  /** When the lease of each permit ends; null: none is held. */
  #permits: Map<string, number> | null = null
  /** No lease ends before. */
  #nextEndUs = Infinity

  constructor(limit: string, key: string, policy: LimitPolicy, state: BucketState, revision: number) {
    this.limit = limit
    this.key = key
    this.policy = policy
    this.state = state
    this.revision = revision
  }

  get active(): number {
    return this.#permits === null ? 0 : this.#permits.size
  }

  takePermit(id: string, untilUs: number): void {
    this.#permits ??= new Map()
    this.#permits.set(id, untilUs)
    this.#nextEndUs = Math.min(this.#nextEndUs, untilUs)
  }

  /** Extends a lease. False: it had ended. */
  extendPermit(id: string, untilUs: number): boolean {
    if (!this.#permits?.has(id)) return false
    this.#permits.set(id, untilUs)
    return true
  }

  returnPermit(id: string): void {
    if (this.#permits?.delete(id) && this.#permits.size === 0) this.#permits = null
  }

  /** Returns the permits whose leases are over. */
  endLeases(nowUs: number): void {
    if (this.#nextEndUs > nowUs) return
    this.#nextEndUs = Infinity
    for (const [id, untilUs] of this.#permits ?? [])
      if (untilUs <= nowUs) this.returnPermit(id)
      else this.#nextEndUs = Math.min(this.#nextEndUs, untilUs)
  }
}
