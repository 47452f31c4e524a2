import { isFinal } from '../base/errors.ts'
import type { GrantedJob } from '../jobs/job.ts'
import type { JobDetails } from '../store/contract/remote-jobs.ts'
import type { Taker } from '../store/contract/remote-claims.ts'

/** A job that a fetch takes: its run, and all that is stored of it. */
export interface FetchedJob {
  readonly run: GrantedJob
  readonly job: JobDetails
}

/** The part of a claim that one fetch gets. */
export interface ClaimShare {
  readonly jobs: readonly FetchedJob[]
  /** The next try by the store's clock; null: at a wakeup only. */
  readonly nextWakeUs: number | null
}

/** The shares of the takers that a claim has served; the others claim again. */
export interface JoinedClaim {
  /** In the order of the takers. */
  readonly shares: readonly (readonly FetchedJob[])[]
  readonly nextWakeUs: number | null
}

/** A worker that takes part; each claim of it has an id of its own. */
export type FetchTaker = Omit<Taker, 'claimId'>

/** The part that one fetch requests from a claim. */
export interface ClaimPart {
  readonly taker: FetchTaker
  /** The place of its fetch among all: an earlier one is served first. */
  readonly arrival: number
  /** Whether the caller has given up: a claim that has not begun leaves it out. */
  readonly gone: () => boolean
  /** Claims for these takers. Equal for all parts of a group. */
  readonly claim: (takers: () => readonly FetchTaker[]) => Promise<JoinedClaim>
}

interface Waiting extends ClaimPart {
  readonly resolve: (share: ClaimShare) => void
  readonly reject: (error: unknown) => void
}

const NOTHING: ClaimShare = { jobs: [], nextWakeUs: null }
/** The most slots of one claim, unless a single fetch asks for more. */
const SLOTS_AT_MOST = 1000

/**
 * Joins fetches of one group, which differ in nothing but their worker and their count. Those that arrive until the
 * store begins a claim share it, the longest waiting fetch first; those that arrive later share the next one. Joined
 * claims save a transaction for each fetch.
 */
export class JoinedClaims {
  /** A group is listed while it claims. */
  readonly #groups = new Map<string, Waiting[]>()

  /** Takes part in the next claim of a group. */
  join(group: string, part: ClaimPart): Promise<ClaimShare> {
    return new Promise((resolve, reject) => {
      const waiting = { ...part, resolve, reject }
      const others = this.#groups.get(group)
      if (others) others.push(waiting)
      else void this.#serve(group, [waiting])
    })
  }

  async #serve(group: string, waiting: Waiting[]): Promise<void> {
    this.#groups.set(group, waiting)
    for (let [first] = waiting; first; [first] = waiting) await claimTogether(first.claim, waiting)
    this.#groups.delete(group)
  }
}

/** One claim for those that wait when the store asks for whom. It leaves the others in the list. */
async function claimTogether(claim: ClaimPart['claim'], waiting: Waiting[]): Promise<void> {
  let parts: Waiting[] = []
  const ask = (): readonly FetchTaker[] => {
    // The store repeats a transaction, so it may ask again.
    waiting.unshift(...parts)
    parts = portionOf(waiting)
    return parts.map(({ taker }) => taker)
  }
  try {
    const { shares, nextWakeUs } = await claim(ask)
    for (const [at, jobs] of shares.entries()) parts[at]?.resolve({ jobs, nextWakeUs })
    waiting.unshift(...parts.slice(shares.length))
  } catch (error) {
    // Without a transaction the store has not asked.
    if (parts.length === 0) ask()
    if (parts.length > 1 && !isFinal(error)) await Promise.all(parts.map(claimAlone))
    else for (const part of parts) part.reject(error)
  }
}

/** Takes the parts of the longest waiting fetches out of the list. Those whose caller has gone get nothing. */
function portionOf(waiting: Waiting[]): Waiting[] {
  const parts: Waiting[] = []
  let slots = 0
  for (const part of waiting.splice(0).sort((a, b) => a.arrival - b.arrival)) {
    slots += part.taker.slots
    if (part.gone()) part.resolve(NOTHING)
    else if (slots <= SLOTS_AT_MOST || parts.length === 0) parts.push(part)
    else waiting.push(part)
  }
  return parts
}

/** A claim that failed for all of them may succeed for some. */
async function claimAlone(part: Waiting): Promise<void> {
  try {
    const { shares, nextWakeUs } = await part.claim(() => [part.taker])
    part.resolve({ jobs: shares[0] ?? [], nextWakeUs })
  } catch (error) {
    part.reject(error)
  }
}
