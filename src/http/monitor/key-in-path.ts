/** Begins a key in a path. Alone it is the empty key, which no path can hold. */
const MARK = '~'

/**
 * The key that a path names. Any key may begin with one `~` more than it has. A key that is empty, `.` or `..`, or that
 * begins with `~`, must: programs take these paths for others.
 */
export function keyInPath(text: string): string {
  return text.startsWith(MARK) ? text.slice(MARK.length) : text
}
