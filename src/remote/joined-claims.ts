import { isFinal } from '../base/errors.ts'
import type { GrantedJob } from '../jobs/job.ts'

/** The part of a claim that one fetch gets. */
export interface ClaimShare {
  readonly jobs: readonly GrantedJob[]
  /** The next try by the store's clock; null: at a wakeup only. */
  readonly nextWakeUs: number | null
}

/** The part that one fetch requests from a claim. */
export interface ClaimPart {
  readonly slots: number
  /** Whether the caller has given up: it gets a job only if all others have theirs. */
  readonly gone: () => boolean
  /** Claims for so many slots. Equal for all parts of a group. */
  readonly claim: (slots: number) => Promise<ClaimShare>
}

interface Waiting extends ClaimPart {
  readonly resolve: (share: ClaimShare) => void
  readonly reject: (error: unknown) => void
}

/** The most slots of one claim, unless a single fetch asks for more. */
const SLOTS_AT_MOST = 1000

/**
 * Joins fetches of one group, which differ in nothing but their count. Those that arrive during a claim share the next
 * one, in order of arrival. Joined claims save a transaction for each fetch.
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
    // Fetches that were woken together join at once.
    await Promise.resolve()
    while (waiting.length > 0) await claimTogether(portionOf(waiting))
    this.#groups.delete(group)
  }
}

/** Takes the first parts out of the list. */
function portionOf(waiting: Waiting[]): Waiting[] {
  let slots = 0
  const end = waiting.findIndex((part, at) => (slots += part.slots) > SLOTS_AT_MOST && at > 0)
  return waiting.splice(0, end < 0 ? waiting.length : end)
}

async function claimTogether(portion: readonly Waiting[]): Promise<void> {
  const parts = portion.filter((part) => !part.gone())
  for (const part of portion) if (!parts.includes(part)) part.resolve({ jobs: [], nextWakeUs: null })
  const [first] = parts
  if (!first) return
  try {
    const slots = parts.reduce((sum, part) => sum + part.slots, 0)
    dealOut(await first.claim(slots), parts)
  } catch (error) {
    if (parts.length > 1 && !isFinal(error)) await Promise.all(parts.map(claimAlone))
    else for (const part of parts) part.reject(error)
  }
}

/** A claim that failed for all of them may succeed for some. */
async function claimAlone(part: Waiting): Promise<void> {
  try {
    part.resolve(await part.claim(part.slots))
  } catch (error) {
    part.reject(error)
  }
}

function dealOut({ jobs, nextWakeUs }: ClaimShare, parts: readonly Waiting[]): void {
  let dealt = 0
  const gone = new Set(parts.filter((part) => part.gone()))
  for (const part of [...parts.filter((each) => !gone.has(each)), ...gone]) {
    part.resolve({ jobs: jobs.slice(dealt, dealt + part.slots), nextWakeUs })
    dealt += part.slots
  }
}
