import { inexactNumber } from '../base/exact-numbers.ts'
import { SluiceError } from '../base/errors.ts'

/**
 * Reads an argument as JSON.
 * @param what names it in messages, as in `'The input'`
 * @throws {SluiceError} `cli.usage` for another text, and for numbers that would change
 */
export function jsonOf(text: string, what: string, example: string): unknown {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (cause) {
    throw new SluiceError('cli.usage', `${what} is invalid: not JSON. Expected JSON, such as '${example}'.`, { cause })
  }
  const inexact = inexactNumber(text)
  if (inexact === null) return json
  throw new SluiceError('cli.usage', `${what} is invalid: ${inexact.message}`)
}
