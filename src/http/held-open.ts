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

/** A caller among those that are counted: a token, or who an application says that it is. */
export function callerOf({ name, tenant }: Pick<Access, 'name' | 'tenant'>): string {
  return JSON.stringify([name, tenant])
}

/** Counts the open answers and running changes of each token on this process. All callers without tokens count as one. */
export class HeldOpen {
  readonly #bounds: Required<Bounds>
  readonly #counts = new Map<string, number>()

  constructor(bounds: Required<Bounds>) {
    this.#bounds = bounds
  }

  /** Counts one more, until the returned function is called. Further calls change nothing. @throws {Refusal} 429 */
  take(access: Access, kind: Kept): () => void {
    const bound = this.#bounds[kind]
    const caller = callerOf(access)
    if ((this.#counts.get(`${kind} ${caller}`) ?? 0) >= bound)
      throw new Refusal(429, 'rate_limited', `The token has ${bound} ${WORDS[kind]}, the most that it may.`, {
        retryable: true,
        details: { resource: kind, bound },
        hint: `Let one of them end first, or raise bounds.${kind} in the configuration of the server.`,
        headers: { 'Retry-After': String(RETRY_AFTER_S) },
      })
    return this.add(caller, kind)
  }

  /** Counts one more of a caller, even beyond the bound, until the returned function is called. */
  add(caller: string, kind: Kept): () => void {
    const place = `${kind} ${caller}`
    const count = (by: number): void => {
      const now = (this.#counts.get(place) ?? 0) + by
      if (now === 0) this.#counts.delete(place)
      else this.#counts.set(place, now)
    }
    count(1)
    let held = true
    return () => {
      if (held) count(-1)
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
