import type { Clock } from '../../base/clock.ts'
import { persist } from '../../base/persist.ts'

/** So long work is repeated that nobody waits for. */
const GIVE_UP_MS = 120_000
/** A caller that only asks is told sooner. */
export const READ_GIVE_UP_MS: number = 10_000

/**
 * Does work again while the server cannot be reached or refuses for a while. `again` tells the work that it may have been done before.
 * @param giveUpMs after so long it throws; two minutes by default
 * @throws whatever the work throws that does not pass, or not in time
 */
export function whenReachable<T>(
  clock: Clock,
  work: (again: boolean) => Promise<T>,
  giveUpMs: number = GIVE_UP_MS,
): Promise<T> {
  return persist(clock, giveUpMs, work)
}
