/** Times as options of a command. */
import { systemClock } from '../base/clock.ts'
import { type Duration, durationMs } from '../base/duration.ts'
import { SluiceError } from '../base/errors.ts'
import { parseInstant } from '../base/instant.ts'
import { quote } from '../base/options.ts'

/** A time in ISO 8601 begins with a year, a duration never does. @throws {SluiceError} `cli.usage` */
export function timeOf(text: string): Date | Duration {
  if (/^\d{4}-/.test(text)) {
    const ms = parseInstant(text)
    if (Number.isNaN(ms)) throw noTime(text)
    return new Date(ms)
  }
  try {
    durationMs(text as Duration, 'The time')
  } catch {
    throw noTime(text)
  }
  return text as Duration
}

/** The instant of a time, or of a time from now. @throws {SluiceError} `cli.usage` */
export function instantOf(text: string): Date {
  const time = timeOf(text)
  return time instanceof Date ? time : new Date(systemClock.now() + durationMs(time, 'The time'))
}

function noTime(text: string): SluiceError {
  return new SluiceError(
    'cli.usage',
    `The time ${quote(text)} is invalid. Expected one with its zone, as 2030-01-31T12:00:00Z, or a time from now, as 10m, of at most 100 years.`,
  )
}
