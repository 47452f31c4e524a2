import { HeldStarts, type HeldStartsOptions } from './held-starts.ts'
import { Shares } from './shares.ts'

/** The part of a limiter in buckets that other processes want too. It is loaded when the first one is met. */
export interface Sharing {
  readonly shares: Shares
  readonly held: HeldStarts
}

/** Makes both for one limiter. */
export function createSharing(options: HeldStartsOptions): Sharing {
  return { shares: new Shares(), held: new HeldStarts(options) }
}
