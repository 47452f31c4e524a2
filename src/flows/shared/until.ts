import { SluiceError } from '../../base/errors.ts'
import { checkInstant } from '../../base/instant.ts'
import { show } from '../../base/options.ts'

/**
 * Checks the instant until which a flow sleeps. One before 1970 reads as 1970.
 * @param what names it in the message, as in `'The time of sleepUntil "end"'`
 * @returns epoch ms
 * @throws {SluiceError} `delay.invalid` for anything but a valid Date, `option.invalid` from the year 2200 on
 */
export function untilOf(at: unknown, what: string): number {
  const ms = at instanceof Date ? at.getTime() : Number.NaN
  if (Number.isNaN(ms))
    throw new SluiceError('delay.invalid', `${what} is invalid: ${show(at)}. Expected a valid Date.`)
  return checkInstant(ms, what)
}
