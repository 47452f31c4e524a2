import type { Access } from './access.ts'
import type { Bounds } from './bounds.ts'
import { Refusal } from './refusal.ts'

/** The kinds of answers that a caller holds open. */
export type Kept = 'streams' | 'polls'

const WORDS: Readonly<Record<Kept, string>> = { streams: 'streams of events', polls: 'waiting requests' }
const RETRY_AFTER_S = 1

/** Counts the open answers of each token on this process. All callers without tokens count as one. */
export class HeldOpen {
  readonly #bounds: Required<Bounds>
  readonly #counts = new WeakMap<Access, Record<Kept, number>>()

  constructor(bounds: Required<Bounds>) {
    this.#bounds = bounds
  }

  /** Counts one more, until the returned function is called. Further calls change nothing. @throws {Refusal} 429 */
  take(access: Access, kind: Kept): () => void {
    const counts = this.#counts.get(access) ?? { streams: 0, polls: 0 }
    this.#counts.set(access, counts)
    const bound = this.#bounds[kind]
    if (counts[kind] >= bound)
      throw new Refusal(429, 'rate_limited', `The token holds ${bound} ${WORDS[kind]} open, the most that it may.`, {
        retryable: true,
        details: { resource: kind, bound },
        hint: `End one of them first, share one, or raise bounds.${kind} in the configuration of the server.`,
        headers: { 'Retry-After': String(RETRY_AFTER_S) },
      })
    counts[kind]++
    let held = true
    return () => {
      if (held) counts[kind]--
      held = false
    }
  }
}
