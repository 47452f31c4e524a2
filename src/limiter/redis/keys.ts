import type { BucketName } from '../contract/limiter.ts'

/** The keys of one namespace. They share a hash tag, so that a cluster keeps all of them in one slot. */
export class RedisKeys {
  /** The policies in force, by limit and by limit and key. */
  readonly policies: string
  /** All changes of limits. */
  readonly changes: string
  readonly #prefix: string
  /** Calls for one limit often follow each other. */
  #limit = ''
  #encoded = ''

  constructor(namespace: string) {
    // A brace would end the tag.
    this.#prefix = `{sluice:${namespace.replaceAll('{', '%7B').replaceAll('}', '%7D')}}`
    this.policies = `${this.#prefix}:policies`
    this.changes = `${this.#prefix}:changes`
  }

  /** The state of a bucket. */
  bucket({ limit, key }: BucketName): string {
    return `${this.#prefix}:b:${this.#named(limit)}:${key}`
  }

  /** The permits of a bucket. */
  permits({ limit, key }: BucketName): string {
    return `${this.#prefix}:p:${this.#named(limit)}:${key}`
  }

  reservation(id: string): string {
    return `${this.#prefix}:r:${id}`
  }

  /** That a named correction was carried out. */
  charge(id: string): string {
    return `${this.#prefix}:c:${id}`
  }

  #named(limit: string): string {
    if (limit !== this.#limit) {
      this.#limit = limit
      this.#encoded = encodeURIComponent(limit)
    }
    return this.#encoded
  }
}
