import type { BucketUse, UnitRequest } from '../contract/limiter.ts'

/** The request of one call. Its permit gets its name only where a limit counts permits. */
export class OwnRequest implements UnitRequest {
  readonly uses: readonly BucketUse[]
  readonly priority: number
  readonly line = 0
  readonly leaseUs: number
  readonly #prefix: string
  readonly #permit: number

  constructor(uses: readonly BucketUse[], priority: number, leaseUs: number, prefix: string, permit: number) {
    this.uses = uses
    this.priority = priority
    this.leaseUs = leaseUs
    this.#prefix = prefix
    this.#permit = permit
  }

  get permit(): string {
    return `${this.#prefix}${this.#permit}`
  }
}
