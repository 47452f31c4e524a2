import { paceOf } from '../../policy/limits/pace.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { BucketUse, Denied } from '../contract/limiter.ts'
import { HeldStarts, type HeldStartsOptions } from './held-starts.ts'
import { Lateness } from './lateness.ts'
import type { Line } from './line.ts'
import { Shares } from './shares.ts'

/** The part of a limiter in a backend of several processes: others want its buckets too, and its answers take time. */
export class Sharing {
  readonly shares: Shares = new Shares()
  readonly held: HeldStarts
  readonly lateness: Lateness

  constructor(options: HeldStartsOptions) {
    this.held = new HeldStarts(options)
    this.lateness = new Lateness(options.limits)
  }

  /** How long before its buckets open a start should be asked for. */
  leadUs(uses: readonly BucketUse[], opensUs: number, nowUs: number): number {
    return this.shares.leadUs(uses, opensUs, nowUs, this.lateness.leadOf(uses, nowUs).withinUs)
  }
  /** A bucket has refused the head of a line, after some starts that it granted, until an instant. */
  refused(line: Line, denied: Denied, policy: LimitPolicy | null, granted: number, nowUs: number): void {
    this.shares.refused(denied, policy, granted, nowUs)
    const kind = policy?.rule?.kind
    const isSteady = kind !== 'fixed' && kind !== 'sliding'
    const { intervalUs } = paceOf(policy)
    line.pace = isSteady && denied.retryAfterUs !== null ? { opensUs: nowUs + denied.retryAfterUs, intervalUs } : null
  }

  /** How many starts of a line are worth a question now: twice what its pace lets start, for others may raise it. */
  worthOf({ pace, waiters, uses }: Line, nowUs: number): number {
    if (!pace) return Infinity
    const aloneUs = this.lateness.leadOf(uses, nowUs).withinUs
    const [withinUs = 0] = this.shares.withinUs(waiters.slice(0, 1), nowUs, aloneUs)
    return 2 + 2 * Math.max(0, Math.ceil((nowUs + withinUs - pace.opensUs) / pace.intervalUs))
  }
}
