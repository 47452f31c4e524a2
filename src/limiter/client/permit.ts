import { SluiceError } from '../../base/errors.ts'
import type { BucketName, BucketUse, Granted, HeldPermit } from '../contract/limiter.ts'
import type { Permits } from './permits.ts'
import { idOf } from './uses.ts'

/** A granted start. Release it at its end, in a `finally`. */
export interface Permit {
  /**
   * Aborts when its permits return before its release: with `lease.lost` if the backend took them back, as after a long
   * pause of this process, and with `limiter.closed` if the limiter was closed.
   */
  readonly signal: AbortSignal
  /**
   * Returns the permits of limits with `concurrency`. Units over time are spent. A second call does nothing, nor does one
   * after the limiter was closed. While the backend cannot be reached it resolves, and the limiter tries again until the
   * lease ends.
   */
  release(): Promise<void>
}

/** The limiter of a start. */
export interface StartOwner {
  readonly permits: Permits
  readonly release: (permit: HeldPermit) => Promise<void>
}

const DONE = Promise.resolve()

/** A start that the limiter granted. */
export class GrantedStart implements Permit {
  readonly uses: readonly BucketUse[]
  /** The order of the starts in this process. */
  readonly seq: number
  readonly #granted: Granted
  readonly #owner: StartOwner
  #controller: AbortController | null = null
  #isUsed = false
  /** By bucket. */
  #corrected: Map<string, number> | null = null

  constructor(uses: readonly BucketUse[], granted: Granted, seq: number, owner: StartOwner) {
    this.uses = uses
    this.seq = seq
    this.#granted = granted
    this.#owner = owner
    if (granted.permit) owner.permits.hold(granted.permit, (reason) => this.#lost(reason))
  }

  /** The instant on the backend's clock. */
  get atUs(): number {
    return this.#granted.atUs
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    return this.#controller.signal
  }

  /** It was released, or work runs under it: a second run would have no units. */
  get isUsed(): boolean {
    return this.#isUsed
  }

  /** Whether this limiter granted it. */
  isOf(owner: StartOwner): boolean {
    return this.#owner === owner
  }

  /** The units that it took from a bucket. */
  unitsOf({ limit, key }: BucketName): number {
    return this.uses.find((use) => use.limit === limit && use.key === key)?.weight ?? 0
  }

  /**
   * The units of a correction that count: all corrections together give back no more than the start took. Those given
   * back are noted now, those taken once they were charged.
   */
  corrected(bucket: BucketName, units: number): number {
    const counted = Math.max(units, -(this.unitsOf(bucket) + (this.#corrected?.get(idOf(bucket)) ?? 0)))
    if (counted < 0) this.noted(bucket, counted)
    return counted
  }

  /** A correction was charged. */
  noted(bucket: BucketName, units: number): void {
    this.#corrected ??= new Map()
    this.#corrected.set(idOf(bucket), (this.#corrected.get(idOf(bucket)) ?? 0) + units)
  }

  /** Work runs under it. */
  use(): void {
    this.#isUsed = true
  }

  release(): Promise<void> {
    this.#isUsed = true
    const { permit } = this.#granted
    return permit && this.#owner.permits.drop(permit) ? this.#owner.release(permit) : DONE
  }

  #lost(reason: Error = lost()): void {
    this.#controller ??= new AbortController()
    this.#controller.abort(reason)
  }
}

function lost(): SluiceError {
  return new SluiceError(
    'lease.lost',
    'The lease of a permit ended before its release. Check that nothing blocks this process for longer than the lease.',
  )
}

/**
 * The start that a permit stands for; null: it is none, one of another limiter, one that was used, or one that took less
 * than these buckets. A reservation that was confirmed by its id alone does not tell what it took.
 */
export function unusedOf(permit: unknown, owner: StartOwner, buckets: readonly BucketUse[]): GrantedStart | null {
  if (!(permit instanceof GrantedStart) || !permit.isOf(owner) || permit.isUsed) return null
  return permit.uses[0] && buckets.some((bucket) => permit.unitsOf(bucket) < bucket.weight) ? null : permit
}
