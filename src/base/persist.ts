import type { Clock } from './clock.ts'
import { mayPass } from './errors.ts'

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2000

/** The pause after so many failures in a row, from `firstMs` on twice as long each time, and 2 s at most. */
export function pauseAfter(failures: number, firstMs: number): number {
  return Math.min(firstMs * 2 ** Math.min(failures - 1, 20), LONGEST_PAUSE_MS)
}

/**
 * Does work again while it fails with errors that may pass, with growing pauses. `again` tells the work that it may have been done before.
 * @param giveUpMs no try begins later than so many ms after the first one, by the steady clock
 * @param failed told of each failure that is followed by another try
 * @throws whatever the work throws that does not pass, or not in time
 */
export async function persist<T>(
  clock: Clock,
  giveUpMs: number,
  work: (again: boolean) => Promise<T>,
  failed: (error: unknown) => void = () => undefined,
): Promise<T> {
  const beganUs = clock.monotonicUs()
  for (let failures = 0; ;) {
    try {
      return await work(failures > 0)
    } catch (error) {
      const pauseMs = pauseAfter(++failures, FIRST_PAUSE_MS)
      const passedMs = (clock.monotonicUs() - beganUs) / 1000
      if (!mayPass(error) || passedMs + pauseMs > giveUpMs) throw error
      failed(error)
      await new Promise<void>((resolve) => clock.setTimer(resolve, pauseMs))
    }
  }
}
