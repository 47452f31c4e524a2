import type { Clock } from '../../src/base/clock.ts'
import type { ManualClock } from '../../src/testing/manual-clock.ts'

/**
 * A manual clock for a limiter whose backend answers by the same clock: it moves on while answers are on their way.
 * @param onTheWay the answers that only this clock brings
 */
export function patientClock(clock: ManualClock, onTheWay: () => number): Clock {
  return {
    bootId: clock.bootId,
    now: () => clock.now(),
    monotonicUs: () => clock.monotonicUs(),
    setTimer: (run, delayMs) => clock.setTimer(run, delayMs),
    attach: (activity) =>
      clock.attach?.({ running: () => activity.running(), pending: () => onTheWay() === 0 && activity.pending() }) ??
      (() => undefined),
  }
}
