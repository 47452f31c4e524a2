import type { BucketUse, UnitRequest } from '../contract/limiter.ts'

/**
 * The request of a call that is answered at once, and of the next such call after it. Its permit gets its name only
 * where a limit counts permits.
 */
export class OwnRequest implements UnitRequest {
  uses: readonly BucketUse[] = []
  priority = 0
  readonly line = 0
  readonly leaseUs: number
  readonly #prefix: string
  #permit = 0

  constructor(leaseUs: number, prefix: string) {
    this.leaseUs = leaseUs
    this.#prefix = prefix
  }

  /** The request of the next call. @param permit the number of its permit */
  of(uses: readonly BucketUse[], priority: number, permit: number): this {
    this.uses = uses
    this.priority = priority
    this.#permit = permit
    return this
  }

  get permit(): string {
    return `${this.#prefix}${this.#permit}`
  }
}
