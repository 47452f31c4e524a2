import type { Clock } from './clock.ts'
import { mayPass } from './errors.ts'

const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2000

/** The pause in ms after a number of consecutive failures: `firstMs`, doubled each time, at most 2 s. */
export function pauseAfter(failures: number, firstMs: number): number {
  return Math.min(firstMs * 2 ** Math.min(failures - 1, 20), LONGEST_PAUSE_MS)
}

/**
 * Repeats work with growing pauses while it fails with errors that may pass. It rejects with the last error. `again`
 * tells the work that an earlier try may have succeeded.
 * @param giveUpMs no try starts later than this after the first one, in ms of the steady clock
 * @param failed called for each failure that another try follows
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
