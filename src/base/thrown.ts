import { beginningOf } from './text.ts'

const LONGEST_CODE = 255
const UNREADABLE = 'a value that cannot be made a text'

/**
 * Turns anything thrown into an error with readable name, message and code. A readable error stays as it is. User code
 * may throw any value, and a getter of that value may throw again; this function never throws.
 */
export function asError(thrown: unknown): Error {
  try {
    if (!(thrown instanceof Error)) return new Error(textOf(thrown))
    const { name, message, stack } = thrown
    if ('code' in thrown) void thrown.code
    if (typeof name === 'string' && typeof message === 'string' && (stack === undefined || typeof stack === 'string'))
      return thrown
  } catch {
    // A getter of the error threw: describe it as text instead.
  }
  return new Error(messageOf(thrown))
}

/**
 * The message of a thrown value, or the value as text. Never throws. A host with several addresses fails with an error
 * for each, and a message for none.
 */
export function messageOf(thrown: unknown): string {
  try {
    if (thrown instanceof AggregateError && thrown.message === '') return thrown.errors.map(messageOf).join('; ')
    if (thrown instanceof Error && typeof thrown.message === 'string') return thrown.message
  } catch {
    // The value may still convert to text.
  }
  return textOf(thrown)
}

/** The code of an error, at most its first 255 characters; null if it has no text code. */
export function codeOf(error: Error): string | null {
  const code = 'code' in error ? error.code : null
  return typeof code === 'string' && code !== '' ? beginningOf(code, LONGEST_CODE) : null
}

function textOf(value: unknown): string {
  try {
    return String(value)
  } catch {
    return UNREADABLE
  }
}
