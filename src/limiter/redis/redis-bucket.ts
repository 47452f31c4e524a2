import { MAX_DURATION_US } from '../../base/duration.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type { BucketName } from '../contract/limiter.ts'
import { StoredBucket } from '../ledger/stored-bucket.ts'

/** 100 years, the longest duration. */
const LONGEST_TTL_MS = Math.ceil(MAX_DURATION_US / 1000)

/** A bucket as it was read. */
export class RedisBucket extends StoredBucket {
  readonly active: number
  /** The state that was read; '': there was none. */
  readonly stored: string
  /** The permit to take, and the end of its lease. */
  permit: { readonly id: string; readonly untilUs: number } | null = null

  constructor(name: BucketName, stored: string, active: number, timeline: Timeline, nowUs: number) {
    super(name, stored, timeline, nowUs)
    this.stored = stored
    this.active = active
  }

  takePermit(id: string, untilUs: number): void {
    this.permit = { id, untilUs }
  }

  /** The text to store, and for how long; '': the bucket equals a new one. */
  written(nowUs: number): { readonly text: string; readonly ttlMs: number } {
    const leftUs = this.warmUntilUs - nowUs
    if (leftUs <= 0) return { text: '', ttlMs: 0 }
    return { text: this.text(nowUs), ttlMs: Math.min(Math.ceil(leftUs / 1000), LONGEST_TTL_MS) + 1 }
  }
}
