import type { Clock } from './clock.ts'

/** Whether a promise settles within `ms` on the clock. Its outcome is left to its other users. */
export async function settlesWithin(clock: Clock, promise: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(() => resolve(false), ms)
    const settled = (): void => {
      timer.cancel()
      resolve(true)
    }
    promise.then(settled, settled)
  })
}
