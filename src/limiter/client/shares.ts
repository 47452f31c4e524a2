/** The share of one process in buckets that others want too. Pure: times are arguments, on one steady clock. */
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import type { BucketUse, Denied } from '../contract/limiter.ts'
import { idOf } from './uses.ts'

/** A process that has had less than its share asks so long before a bucket opens, and any other one so long. */
const FIRST_US = 50_000
const NEXT_US = 10_000
/** It asks earlier if others were first even so: a slow process pays that far ahead. */
const LONGEST_FIRST_US = 2_000_000
/** A bucket without a window is shared over this time. */
const ROUND_US = 250_000
/** Others are expected for this time after their last sign. */
const REMEMBERED_US = 2_000_000
/** The most buckets to remember. */
const MOST_BUCKETS = 10_000

interface Share {
  /** The time between two units of the share. */
  readonly intervalUs: number
  /** Units that may be taken together. */
  readonly units: number
  /** How long before an opening the process asks within its share, and beyond it. */
  readonly firstUs: number
  readonly nextUs: number
  readonly endsUs: number
  /** When all units that were taken will have been the share of the time. */
  tatUs: number
}

/**
 * Several processes that wait for one bucket learn how many they are from its refusals. Who has had less than its part
 * of the budget asks first, and books starts ahead. The others may have what is left.
 */
export class Shares {
  readonly #shares = new Map<string, Share>()

  /** A bucket has refused this process, and granted it some starts before. @returns the units of its share, or 0 */
  refused(
    { by, callers = 1, retryAfterUs }: Denied,
    policy: LimitPolicy | null,
    granted: number,
    nowUs: number,
  ): number {
    const id = idOf(by)
    const known = this.#shareOf(id, nowUs)
    this.#shares.delete(id)
    for (const [oldest, { endsUs }] of this.#shares) {
      if (endsUs > nowUs && this.#shares.size < MOST_BUCKETS) break
      this.#shares.delete(oldest)
    }
    if (!policy || callers <= 1) return 0
    const endsUs = nowUs + (retryAfterUs ?? 0) + REMEMBERED_US
    const share = shareOf(policy, callers, known ? firstOf(known, granted, nowUs) : FIRST_US)
    this.#shares.set(id, { ...share, endsUs, tatUs: known?.tatUs ?? nowUs })
    return share.units
  }

  /** This process got a start. */
  took(uses: readonly BucketUse[], nowUs: number): void {
    if (this.#shares.size === 0) return
    for (const use of uses) {
      const share = this.#shares.get(idOf(use))
      if (!share) continue
      const { intervalUs, units, tatUs } = share
      // Units that others left count for a few rounds only.
      const mostUs = nowUs + 2 * Math.max(units, use.weight) * intervalUs
      share.tatUs = Math.min(Math.max(tatUs, nowUs) + use.weight * intervalUs, mostUs)
    }
  }

  /** How far ahead each of these starts may be booked, in their order. @param aloneUs where no bucket is contended */
  withinUs(starts: readonly { readonly uses: readonly BucketUse[] }[], nowUs: number, aloneUs = 0): number[] {
    if (this.#shares.size === 0) return starts.map(() => aloneUs)
    const before = new Map<string, number>()
    return starts.map(({ uses }) => {
      let withinUs = Infinity
      for (const use of uses) {
        const id = idOf(use)
        const share = this.#shareOf(id, nowUs)
        if (!share) continue
        const units = before.get(id) ?? 0
        const isFirst = readyUs(share, units, use.weight, nowUs) <= nowUs
        withinUs = Math.min(withinUs, isFirst ? Math.max(share.firstUs, aloneUs) : share.nextUs)
        before.set(id, units + use.weight)
      }
      return withinUs === Infinity ? aloneUs : withinUs
    })
  }

  /** How long before its buckets open a start should be asked for. @param aloneUs where no bucket is contended */
  leadUs(uses: readonly BucketUse[], opensUs: number, nowUs: number, aloneUs = 0): number {
    if (this.#shares.size === 0) return aloneUs
    let leadUs = Infinity
    for (const use of uses) {
      const share = this.#shareOf(idOf(use), nowUs)
      if (!share) continue
      const untilUs = opensUs - readyUs(share, 0, use.weight, nowUs)
      leadUs = Math.min(leadUs, Math.max(share.nextUs, Math.min(Math.max(share.firstUs, aloneUs), untilUs)))
    }
    return leadUs === Infinity ? aloneUs : leadUs
  }

  #shareOf(id: string, nowUs: number): Share | null {
    const share = this.#shares.get(id)
    return share && share.endsUs > nowUs ? share : null
  }
}

/** When a start is within the share, after some units that are asked for as well. */
function readyUs({ intervalUs, tatUs, units }: Share, before: number, weight: number, nowUs: number): number {
  return Math.max(tatUs, nowUs) + (before + Math.min(weight, units) - units) * intervalUs
}

/** How long before an opening a process asks next, after an ask within its share got so many starts. */
function firstOf(share: Share, granted: number, nowUs: number): number {
  if (granted > 0) return Math.max(FIRST_US, Math.floor(share.firstUs * 0.9))
  return readyUs(share, 0, 1, nowUs) <= nowUs ? share.firstUs * 2 : share.firstUs
}

function shareOf(policy: LimitPolicy, callers: number, firstUs: number): Omit<Share, 'endsUs' | 'tatUs'> {
  const { intervalUs: paceUs, periodUs } = paceOf(policy)
  const kind = policy.rule?.kind
  const roundUs = kind === 'sliding' || kind === 'fixed' ? periodUs : ROUND_US
  const intervalUs = paceUs * callers
  const units = Math.max(1, Math.floor(roundUs / intervalUs))
  // A fixed window knows no later one than the next.
  const mostUs = kind === 'fixed' ? Math.min(LONGEST_FIRST_US, Math.floor(periodUs / 2)) : LONGEST_FIRST_US
  return { intervalUs, units, firstUs: Math.min(firstUs, mostUs), nextUs: Math.min(NEXT_US, mostUs) }
}
