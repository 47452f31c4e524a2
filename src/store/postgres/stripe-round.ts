import type { Claim } from '../contract/store.ts'
import type { Context } from './context.ts'
import { sharedQueue } from './own.ts'
import type { LockedStripes } from './read-set.ts'

/**
 * One claim's way around the stripes of its queues: each of them once at most. A claim begins behind the stripe that
 * this process claimed last, so that every stripe with work comes in turn.
 */
export class StripeRound {
  readonly tried: string[] = []
  readonly #next: Map<string, number>
  #before: Claim | null = null

  constructor({ nextStripe }: Context) {
    this.#next = nextStripe
  }

  /** The stripe of a queue with which the claim begins; processes begin apart. */
  first(queue: string, worker: number): number {
    return this.#next.get(queue) ?? worker % 64
  }

  /** Records a pass. Answers the claim; null: nothing started, and another stripe has work. */
  passed(claim: Claim, stripes: LockedStripes | null): Claim | null {
    if (stripes === null) return claim
    const [names, more] = stripes
    for (const name of names) {
      const queue = sharedQueue(name)
      if (queue !== name) this.#next.set(queue, Number(name.slice(queue.length + 1)) + 1)
    }
    const all = this.#before === null ? claim : joined(this.#before, claim)
    if (!more) return all
    if (claim.jobs.length > 0) return { ...all, nextWakeUs: claim.nowUs }
    this.#before = all
    this.tried.push(...names)
    return null
  }
}

/** Two passes as one claim. The news of a pass that several passes share is in the later one. */
function joined(before: Claim, claim: Claim): Claim {
  const wakesUs = [before.nextWakeUs, claim.nextWakeUs].filter((each) => each !== null)
  return {
    ...claim,
    looks: before.looks + claim.looks,
    nextWakeUs: wakesUs.length === 0 ? null : Math.min(...wakesUs),
    ...((before.wanted ?? claim.wanted) && { wanted: [...(before.wanted ?? []), ...(claim.wanted ?? [])] }),
    closed: [...before.closed, ...claim.closed],
    sustained: [...before.sustained, ...claim.sustained],
    released: [...before.released, ...claim.released],
  }
}
