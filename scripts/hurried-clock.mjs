// A clock that begins behind the system's and hurries until it has caught up. What an engine does in minutes then fills a
// longer time, whose end is now.
import { systemClock } from '../src/base/clock.ts'

/**
 * @param behindMs how far it is behind at first, ms
 * @param speed how much faster than the system's clock it goes until it has caught up, above 1
 */
export function hurriedClock(behindMs, speed) {
  const began = systemClock.monotonicUs()
  const behindUs = () => Math.max(0, Math.round(behindMs * 1000 - (systemClock.monotonicUs() - began) * (speed - 1)))
  const monotonicUs = () => systemClock.monotonicUs() - behindUs()
  return {
    now: () => systemClock.now() - behindUs() / 1000,
    monotonicUs,
    bootId: 'hurried',
    /** How long it still takes to catch up, in ms of the system's clock. */
    leftMs: () => behindUs() / 1000 / (speed - 1),
    setTimer(run, delayMs) {
      const atUs = monotonicUs() + delayMs * 1000
      let timer
      const arm = () => {
        const leftMs = (atUs - monotonicUs()) / 1000
        if (leftMs <= 0) run()
        else timer = systemClock.setTimer(arm, behindUs() > 0 ? leftMs / speed : leftMs)
      }
      timer = systemClock.setTimer(arm, Math.max(0, behindUs() > 0 ? delayMs / speed : delayMs))
      return { cancel: () => timer.cancel(), unref: () => timer.unref?.() }
    },
  }
}
