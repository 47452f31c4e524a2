/** Stands in for a character that a store cannot keep. */
const REPLACEMENT = '�'
const NOT_KEPT = /\0|\p{Surrogate}/gu

/**
 * Whether every store keeps a text unchanged. PostgreSQL refuses NUL. Half a surrogate pair has no UTF-8 form, so two
 * different texts could become one. In JSON text both are escapes, which every store keeps.
 */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

/** Replaces each character that a store cannot keep by U+FFFD. */
export function storableText(text: string): string {
  return isStorable(text) ? text : text.replaceAll(NOT_KEPT, REPLACEMENT)
}

/** The longest name of anything, unless its own rule says less. */
export const LONGEST_NAME = 255
const TASK_NAME = /^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$/

/** Whether a value is the name of a task, a workflow, a machine or a graph: lower case words with dots. */
export function isTaskName(value: unknown): value is string {
  return typeof value === 'string' && value.length <= LONGEST_NAME && TASK_NAME.test(value)
}

/** Whether a value is a valid name: a storable string of 1 to `longest` characters. */
export function isName(value: unknown, longest: number = LONGEST_NAME): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= longest && isStorable(value)
}

/** The beginning of a text, at most `longest` UTF-16 units. It never splits a surrogate pair. */
export function beginningOf(text: string, longest: number): string {
  if (text.length <= longest) return text
  const last = text.charCodeAt(longest - 1)
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? longest - 1 : longest)
}

/**
 * A password in a URL. It may have spaces and quotes, since users forget to encode them. Without an @ the match takes
 * the rest of its line, which has none: to begin again there would take the square of its length.
 */
const PASSWORD = /(:\/\/[^:/?#\s"'@[]*:)(?!\d*(?:[/?#\s"']|$))[^\n@]*(@(?:[^\s"']*@)?)?/g

/** Hides the passwords of URLs in a text, for display and logs: `postgres://user:***@host`, `password=***`, and tokens: `nats://***@host`. */
export function withoutPassword(text: string): string {
  return text
    .replaceAll(PASSWORD, (all, before: string, at?: string) => (at === undefined ? all : `${before}***@`))
    .replaceAll(/(nats:\/\/)[^:/?#\s"'@]+@/gi, '$1***@')
    .replaceAll(/\b(password\s*=\s*)('[^']*'|[^&\s"']+)/gi, '$1***')
}
