import type { Access } from './access.ts'
import type { Bounds } from './bounds.ts'
import { Refusal } from './refusal.ts'

/** The kinds of work that a caller has under way for long. */
export type Kept = 'streams' | 'polls' | 'bulks'

const WORDS: Readonly<Record<Kept, string>> = {
  streams: 'open streams of events',
  polls: 'waiting requests',
  bulks: 'running changes of many jobs',
}
const RETRY_AFTER_S = 1

/** Counts the open answers and running changes of each token on this process. All callers without tokens count as one. */
export class HeldOpen {
  readonly #bounds: Required<Bounds>
  readonly #counts = new WeakMap<Access, Record<Kept, number>>()

  constructor(bounds: Required<Bounds>) {
    this.#bounds = bounds
  }

  /** Counts one more, until the returned function is called. Further calls change nothing. @throws {Refusal} 429 */
  take(access: Access, kind: Kept): () => void {
    const counts = this.#counts.get(access) ?? { streams: 0, polls: 0, bulks: 0 }
    this.#counts.set(access, counts)
    const bound = this.#bounds[kind]
    if (counts[kind] >= bound)
      throw new Refusal(429, 'rate_limited', `The token has ${bound} ${WORDS[kind]}, the most that it may.`, {
        retryable: true,
        details: { resource: kind, bound },
        hint: `Let one of them end first, or raise bounds.${kind} in the configuration of the server.`,
        headers: { 'Retry-After': String(RETRY_AFTER_S) },
      })
    counts[kind]++
    let held = true
    return () => {
      if (held) counts[kind]--
      held = false
    }
  }

  /** Counts one more until the work ends. @throws {Refusal} 429 */
  async during<T>(access: Access, kind: Kept, work: () => Promise<T>): Promise<T> {
    const letGo = this.take(access, kind)
    try {
      return await work()
    } finally {
      letGo()
    }
  }
}
