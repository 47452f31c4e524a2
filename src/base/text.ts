/** What stands for a character that a store cannot keep. */
const REPLACEMENT = '�'
const NOT_KEPT = /\0|\p{Surrogate}/gu

/**
 * Whether every store keeps a text as it is. PostgreSQL refuses NUL, and half a surrogate pair has no form in UTF-8, so that two such texts
 * would become one. Inside JSON text both are escapes, which every store keeps.
 */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

/** Free text as every store keeps it: U+FFFD stands in place of what cannot be kept, and all else stays. */
export function storableText(text: string): string {
  return isStorable(text) ? text : text.replaceAll(NOT_KEPT, REPLACEMENT)
}

/** Whether a value may be a name: a text of 1 to `longest` characters that every store keeps as it is. */
export function isName(value: unknown, longest: number): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= longest && isStorable(value)
}

/** The beginning of a text, of at most so many UTF-16 units; no surrogate pair is cut in two. */
export function beginningOf(text: string, longest: number): string {
  if (text.length <= longest) return text
  const last = text.charCodeAt(longest - 1)
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? longest - 1 : longest)
}
