import { SluiceError } from '../../base/errors.ts'
import type { BucketUse, Granted, HeldPermit } from '../contract/limiter.ts'
import type { Permits } from './permits.ts'

/** A granted start. Release it at its end, in a `finally`. */
export interface Permit {
  /** Aborts with `lease.lost` if the backend took its permits back, as after a long pause of this process. */
  readonly signal: AbortSignal
  /** Returns the permits of limits with `concurrency`. Units over time are spent. A second call does nothing. */
  release(): Promise<void>
}

/** A start that the limiter granted. */
export class GrantedStart implements Permit {
  readonly uses: readonly BucketUse[]
  /** The instant on the backend's clock. */
  readonly atUs: number
  /** The order of the starts in this process. */
  readonly seq: number
  readonly #held: HeldPermit | null
  readonly #permits: Permits
  readonly #release: (permit: HeldPermit) => Promise<void>
  #controller: AbortController | null = null
  #isLost = false

  constructor(
    uses: readonly BucketUse[],
    granted: Granted,
    seq: number,
    permits: Permits,
    release: (permit: HeldPermit) => Promise<void>,
  ) {
    this.uses = uses
    this.atUs = granted.atUs
    this.seq = seq
    this.#held = granted.permit
    this.#permits = permits
    this.#release = release
    if (granted.permit) permits.hold(granted.permit, () => this.#lost())
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#isLost) this.#controller.abort(lost())
    return this.#controller.signal
  }

  async release(): Promise<void> {
    if (this.#held && this.#permits.drop(this.#held)) await this.#release(this.#held)
  }

  #lost(): void {
    this.#isLost = true
    this.#controller?.abort(lost())
  }
}

function lost(): SluiceError {
  return new SluiceError(
    'lease.lost',
    'The lease of a permit ended before its release. Check that nothing blocks this process for longer than the lease.',
  )
}
