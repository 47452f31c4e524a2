import type { BucketName, Granted, UnitAnswer, UnitRequest } from '../../limiter/contract/limiter.ts'

/** The names of limits in a store, and as the callers of a limiter know them: without its prefix. */
export class Names {
  readonly #prefix: string

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  stored(limit: string): string {
    return this.#prefix + limit
  }

  shown(limit: string): string {
    return limit.startsWith(this.#prefix) ? limit.slice(this.#prefix.length) : limit
  }

  storedBucket({ limit, key }: BucketName): BucketName {
    return { limit: this.stored(limit), key }
  }

  shownBucket({ limit, key }: BucketName): BucketName {
    return { limit: this.shown(limit), key }
  }

  storedRequest(request: UnitRequest): UnitRequest {
    if (this.#prefix === '') return request
    return { ...request, uses: request.uses.map((use) => ({ ...use, limit: this.stored(use.limit) })) }
  }

  shownGrant(granted: Granted): Granted {
    const { permit } = granted
    if (this.#prefix === '' || !permit) return granted
    return { ...granted, permit: { id: permit.id, of: permit.of.map((bucket) => this.shownBucket(bucket)) } }
  }

  shownAnswer(answer: UnitAnswer): UnitAnswer {
    if (this.#prefix === '') return answer
    if (answer.kind === 'granted') return this.shownGrant(answer)
    if (answer.kind === 'unknown') return { kind: 'unknown', limit: this.shown(answer.limit) }
    return { ...answer, by: this.shownBucket(answer.by) }
  }
}
