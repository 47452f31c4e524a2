import { SluiceError } from './errors.ts'
import { show } from './options.ts'

/** A source of random numbers. */
export interface Random {
  /** A number from 0 (inclusive) to 1 (exclusive). */
  next(): number
}

/** The runtime's random numbers. Not for secrets. */
export const systemRandom: Random = { next: () => Math.random() }

/**
 * Creates random numbers that repeat for the same seed, for tests and simulations. Not for secrets. The algorithm is
 * mulberry32 by Tommy Ettinger (public domain): 32 bits of state, period 2^32.
 *
 * @param seed any number; its lowest 32 bits count.
 */
export function seededRandom(seed: number): Random {
  if (typeof seed !== 'number' || Number.isNaN(seed))
    throw new SluiceError('option.invalid', `The seed of seededRandom is invalid: ${show(seed)}. Expected a number.`)
  let state = seed | 0
  return {
    next(): number {
      state = (state + 0x6d2b79f5) | 0
      let mixed = Math.imul(state ^ (state >>> 15), state | 1)
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
    },
  }
}
