import { inexactNumber } from '../base/exact-numbers.ts'
import { SluiceError } from '../base/errors.ts'
import { jsonFaults, pathText } from '../base/json-text.ts'

/**
 * Reads an argument as JSON.
 * @param what names it in messages, as in `'The input'`
 * @throws {SluiceError} `cli.usage` for another text, a name given twice, and numbers that would change
 */
export function jsonOf(text: string, what: string, example: string): unknown {
  const { brokenAt, repeated } = jsonFaults(text)
  if (brokenAt !== null)
    throw new SluiceError(
      'cli.usage',
      `${what} is invalid: not JSON from ${brokenAt} on. Expected JSON, such as '${example}'.`,
    )
  if (repeated[0] !== undefined)
    throw new SluiceError(
      'cli.usage',
      `${what} is invalid: ${pathText(repeated[0])} is there twice. Expected each name once.`,
    )
  const json: unknown = JSON.parse(text)
  const inexact = inexactNumber(text)
  if (inexact === null) return json
  throw new SluiceError('cli.usage', `${what} is invalid: ${inexact.message}`)
}
