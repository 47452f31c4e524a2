import type { Clock } from '../../base/clock.ts'
import { wasLost } from '../../database/postgres.ts'

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2000
/** Longer than a lease nobody needs to try: what ran is somebody else's by then. */
const GIVE_UP_MS = 120_000

/**
 * Does work anew while the server cannot be reached, with growing pauses. `again` tells the work that it may have been done before.
 * @throws whatever the work throws, after two minutes also store.io
 */
export async function whenReachable<T>(clock: Clock, work: (again: boolean) => Promise<T>): Promise<T> {
  const beganUs = clock.monotonicUs()
  for (let pauseMs = FIRST_PAUSE_MS, again = false; ; again = true) {
    try {
      return await work(again)
    } catch (error) {
      if (!wasLost(error) || clock.monotonicUs() - beganUs > GIVE_UP_MS * 1000) throw error
    }
    await new Promise<void>((resolve) => clock.setTimer(resolve, pauseMs))
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
  }
}
