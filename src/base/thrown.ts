import { beginningOf } from './text.ts'

const LONGEST_CODE = 255
const UNREADABLE = 'a value that cannot be made a text'

/**
 * What was thrown, as an error whose name and message are texts and whose code can be read: the error itself where that is so, else one that
 * says as much as can be told. Code of users may throw anything, and a getter of it may throw again. Never throws.
 */
export function asError(thrown: unknown): Error {
  try {
    if (!(thrown instanceof Error)) return new Error(textOf(thrown))
    const { name, message, stack } = thrown
    if ('code' in thrown) void thrown.code
    if (typeof name === 'string' && typeof message === 'string' && (stack === undefined || typeof stack === 'string'))
      return thrown
  } catch {
    // What has such a getter is told of in other words.
  }
  return new Error(messageOf(thrown))
}

/** The message of what was thrown, or what was thrown as a text. Never throws. */
export function messageOf(thrown: unknown): string {
  try {
    if (thrown instanceof Error && typeof thrown.message === 'string') return thrown.message
  } catch {
    // It may still have a text.
  }
  return textOf(thrown)
}

/** The code that an error bears, its first 255 characters at most; null: it bears none that is a text. */
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
