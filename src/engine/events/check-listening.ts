import { SluiceError } from '../../base/errors.ts'
import { nearest } from '../../base/nearest.ts'
import { checkText, show } from '../../base/options.ts'
import { EVENT_NAMES } from './events.ts'

const NAMES: readonly string[] = EVENT_NAMES

/** Checks the arguments of `sluice.on`. @throws {SluiceError} `option.invalid` */
export function checkListening(name: string, listener: unknown, rest: readonly unknown[]): void {
  if (!NAMES.includes(name)) {
    const near =
      nearest(checkText(name, 'The name of an event'), NAMES) ?? NAMES.find((each) => each.endsWith(`.${name}`))
    throw new SluiceError(
      'option.invalid',
      `The event ${JSON.stringify(name)} does not exist${near === undefined ? '. ' : `; did you mean ${near}? `}Expected ${NAMES.join(', ')}.`,
    )
  }
  if (typeof listener !== 'function')
    throw new SluiceError(
      'option.invalid',
      `The listener of ${name} is invalid: ${show(listener)}. Expected a function.`,
    )
  // An ignored option would promise more than the events of this process.
  if (rest.some((value) => value !== undefined))
    throw new SluiceError(
      'option.invalid',
      `The third argument of on is invalid: ${show(rest.find((value) => value !== undefined))}. Expected a name and a listener alone: on takes no options, and calls the listener at events of this process. Listen in each process.`,
    )
}
