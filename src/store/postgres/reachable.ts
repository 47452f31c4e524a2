import type { Clock } from '../../base/clock.ts'
import { wasLost } from '../../database/postgres-error.ts'

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2000
/** Longer than a lease nobody needs to try: what ran is somebody else's by then. */
const GIVE_UP_MS = 120_000
/** Whoever only asks is told sooner. */
export const READ_GIVE_UP_MS: number = 10_000

/**
 * Does work anew while the server cannot be reached, with growing pauses. `again` tells the work that it may have been done before.
 * @param giveUpMs after so long it throws; two minutes by default
 * @throws whatever the work throws, and store.io when the time is over
 */
export async function whenReachable<T>(
  clock: Clock,
  work: (again: boolean) => Promise<T>,
  giveUpMs: number = GIVE_UP_MS,
): Promise<T> {
  const beganUs = clock.monotonicUs()
  for (let pauseMs = FIRST_PAUSE_MS, again = false; ; again = true) {
    try {
      return await work(again)
    } catch (error) {
      if (!wasLost(error) || clock.monotonicUs() - beganUs > giveUpMs * 1000) throw error
    }
    await new Promise<void>((resolve) => clock.setTimer(resolve, pauseMs))
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
  }
}
