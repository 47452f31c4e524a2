import type { Clock } from '../../base/clock.ts'
import { type Duration, durationUs } from '../../base/duration.ts'
import { checkInstant } from '../../base/instant.ts'

declare const SNOOZED: unique symbol

/** The wish of a run that its job waits and runs again, made by `ctx.snooze`. It is opaque. */
export interface Snooze {
  readonly [SNOOZED]: true
}

/** A snooze and its length. */
class Snoozed {
  readonly delayUs: number

  constructor(delayUs: number) {
    this.delayUs = delayUs
  }
}

/** Makes the value of `ctx.snooze`. @throws {SluiceError} `duration.invalid`; `option.invalid` for an end after 2199 */
export function snoozeFor(duration: Duration, clock: Clock): Snooze {
  const delayUs = durationUs(duration, 'the duration of snooze')
  checkInstant(clock.now() + delayUs / 1000, 'The end of snooze')
  return Object.freeze(new Snoozed(delayUs)) as unknown as Snooze
}

/** The length of a returned snooze in µs; null: the value is a result. */
export function snoozedUs(value: unknown): number | null {
  return value instanceof Snoozed ? value.delayUs : null
}
