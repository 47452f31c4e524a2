/** Starts granted ahead: each is charged at its own future instant, and its claimer holds it until then. */
import { isStrict } from '../limits/limit.ts'
import { isNear } from '../rules/fixed-window.ts'
import { type Bucket, deniedUntilUs, type Head, type Lane } from './lane.ts'
import { type Charge, chargesOf, type QueueSlots } from './queue-slots.ts'
import { TurnOrder, type TurnRank } from './turn-order.ts'
import type { WaitList } from './wait-list.ts'

/**
 * How long a start ahead may keep back the next start of a strict bucket that more lanes need than the bucket that sets
 * the instant, µs. Jobs that need only that bucket wait for up to as much longer.
 */
const AHEAD_OF_OTHERS_US = 5000
/** Jobs of a lane that one read takes, since each of them may start at an instant of its own. */
export const HEADS_AHEAD = 16

interface DueList extends TurnRank {
  readonly waitList: WaitList
}

/** The instants from the clock's up to a bound at which first lanes of wait lists may start. */
export class Ahead {
  readonly clockUs: number
  readonly #untilUs: number
  readonly #order = new TurnOrder<DueList>()
  /** Wait lists whose first lane is left to its own time. */
  readonly #left = new Set<WaitList>()
  /** The instant decided for. */
  #atUs: number

  constructor(clockUs: number, untilUs: number) {
    this.clockUs = clockUs
    this.#atUs = clockUs
    this.#untilUs = untilUs
  }

  /** Notes when the first lane of a wait list may start. */
  note(waitList: WaitList, atUs: number): void {
    if (atUs > this.#untilUs || this.#left.has(waitList)) return
    this.#order.push({ id: waitList.bucket.id, priority: 0, turn: Math.max(atUs, this.#atUs), head: 0, waitList })
  }

  /** The next instant, and the wait lists that are due then; null: none. */
  next(): { readonly atUs: number; readonly waitLists: readonly WaitList[] } | null {
    if (!this.#order.top) return null
    const first = this.#order.pop() as DueList
    this.#atUs = first.turn
    const waitLists = [first.waitList]
    while (this.#order.top?.turn === first.turn) waitLists.push((this.#order.pop() as DueList).waitList)
    return { atUs: first.turn, waitLists }
  }

  /** Leaves the first lane of a wait list to its own time, and with it all that wait behind it. */
  readonly leave = (waitList: WaitList): void => {
    this.#left.add(waitList)
  }

  /** Whether the first lane of a wait list must not be looked at for this instant: it is left, or it is for a later one. */
  defers(waitList: WaitList, needUs: number): boolean {
    // The decision for the clock's own instant is over, and has left this lane.
    if (needUs <= this.clockUs) this.leave(waitList)
    else if (needUs <= this.#atUs && !this.#left.has(waitList)) return false
    else this.note(waitList, needUs)
    return true
  }

  /**
   * Whether a lane's head may start at an instant after the clock's: only if time alone decides it. No start takes a
   * permit of a bucket whose own rule does not set the instant, since the permit would lie idle until then.
   */
  admits(lane: Lane, head: Head, share: QueueSlots, atUs: number): boolean {
    if (share.ahead <= 0 || (head.latestUs !== null && head.latestUs < atUs)) return false
    const charges = chargesOf(lane, head, share)
    const holdsBack = this.#holdsBack(lane, charges, head, atUs)
    return charges.every(
      (charge, i) =>
        isTimed(charge) &&
        this.#isOpen(charge, head, atUs) &&
        !holdsBack(charge, i) &&
        (i < lane.buckets.length || deniedUntilUs(charge.bucket, charge.weight, atUs, head.given) === null),
    )
  }

  #isOpen({ bucket, weight }: Charge, head: Head, atUs: number): boolean {
    const { policy, state } = bucket
    if (!policy || state.closedUntilUs > this.clockUs) return false
    if (policy.mode === 'shadow') return true
    const { allowance, rule } = state
    if (allowance && allowance.untilUs > this.clockUs && allowance.untilUs <= atUs) return false
    if (rule?.kind === 'sliding' && rule.debt > 0) return false
    if (policy.rule?.kind === 'sliding' && weight > policy.rule.max) return false
    const needUs = this.#needUs({ bucket, weight }, head)
    if (policy.rule?.kind === 'fixed') {
      if (!isNear(policy.rule, this.clockUs, atUs)) return false
      // It may admit a start now and none then: in its guard, or where starts ahead have filled the next window.
      if (needUs <= this.clockUs && deniedUntilUs(bucket, weight, atUs, head.given) !== null) return false
    }
    return policy.concurrency === null || needUs >= atUs
  }

  #needUs({ bucket, weight }: Charge, head: Head): number {
    return deniedUntilUs(bucket, weight, this.clockUs, head.given) ?? this.clockUs
  }

  /**
   * Whether a start at an instant holds back the next start of a strict bucket for too long. A bucket of no more lanes
   * than the one that sets the instant is mostly a key within that limit: none of its jobs could start before.
   */
  #holdsBack(
    lane: Lane,
    charges: readonly Charge[],
    head: Head,
    atUs: number,
  ): (charge: Charge, place: number) => boolean {
    // Every lane of the queue needs the queue's own buckets.
    const lanesOf = ({ bucket }: Charge, place: number): number =>
      place < lane.buckets.length ? bucket.lanes : Infinity
    const widest = charges.reduce(
      (most, charge, i) => (this.#needUs(charge, head) >= atUs ? Math.max(most, lanesOf(charge, i)) : most),
      0,
    )
    return (charge, i) => {
      const { policy } = charge.bucket
      if (policy === null || policy.mode === 'shadow' || !isStrict(policy) || charge.weight === 0) return false
      return lanesOf(charge, i) > widest && atUs - this.#needUs(charge, head) > AHEAD_OF_OTHERS_US
    }
  }

  /**
   * When a claimer should come for the first lane of a wait list: early enough to grant its start and those after it
   * ahead. It comes at the instant itself for a start that only its own time decides, or that was not granted although
   * it was near enough.
   */
  wakeUs(lane: Lane, head: Head | null, share: QueueSlots | undefined, needUs: number): number {
    if (!head || !share || share.aheadAtMost === 0) return needUs
    const charges = chargesOf(lane, head, share)
    if (!charges.every(isTimed)) return needUs
    const aheadUs = this.#untilUs - this.clockUs
    const holdsBack = charges.some(this.#holdsBack(lane, charges, head, needUs))
    return earlier(needUs, this.clockUs, holdsBack ? Math.min(aheadUs, AHEAD_OF_OTHERS_US) : aheadUs)
  }
}

/** When a claimer should come for starts due at an instant that it has not granted, if they may be granted ahead. */
export function earlier(dueUs: number, nowUs: number, aheadUs: number): number {
  return dueUs > nowUs + aheadUs ? dueUs - Math.floor(aheadUs / 2) : dueUs
}

/** Whether a refusal by this bucket only delays a start. */
function isTimed({ bucket: { policy } }: { readonly bucket: Bucket }): boolean {
  return policy !== null && policy.onLimit === 'wait' && policy.maxWaitUs === null && policy.backend === undefined
}
