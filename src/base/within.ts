import type { Clock } from './clock.ts'

/** Whether a promise is settled within `ms` of that clock; that it fails is the business of whoever else has it. */
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
