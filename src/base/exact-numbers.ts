/** A text without a match holds no number that could change: 16 digits in a row, or an exponent. */
const SUSPICIOUS = /\d{16}|\d[eE][+-]?\d/
const NUMBER = /-?\d+(\.\d+)?([eE][+-]?\d+)?/y

/**
 * Finds the first number of a JSON text that would not come back as it was written: a whole number of too many digits,
 * or one that overflows or underflows. Null: there is none.
 *
 * @param text JSON that was parsed without an error
 */
export function inexactNumber(text: string): { readonly path: string; readonly message: string } | null {
  if (!SUSPICIOUS.test(text)) return null
  for (const { literal, path } of numbersIn(text)) {
    if (isExact(literal)) continue
    const message = `${literal.slice(0, 64)} cannot be stored exactly. Expected a string, or a whole number up to ${Number.MAX_SAFE_INTEGER}.`
    return { path: path.join('.').slice(0, 200), message }
  }
  return null
}

/** Returns whether a number stays the same when read. A fraction may be rounded, a whole number may not. */
function isExact(literal: string): boolean {
  const value = Number(literal)
  if (!Number.isFinite(value)) return false
  if (value === 0) return !/[1-9]/.test(literal.replace(/[eE].*$/, ''))
  return !Number.isInteger(value) || Number.isSafeInteger(value) || digitsOf(literal) === digitsOf(String(value))
}

/** The significant digits, and the power of ten that multiplies them. */
function digitsOf(literal: string): string {
  const [, whole = '', fraction = '', exponent = '0'] = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? []
  const all = (whole + fraction).replace(/^0+/, '')
  const digits = all.replace(/0+$/, '')
  return `${digits}e${Number(exponent) - fraction.length + (all.length - digits.length)}`
}

interface Open {
  readonly list: boolean
  /** The index in a list, or the name in an object. */
  at: string | number
}

function* numbersIn(text: string): Generator<{ readonly literal: string; readonly path: (string | number)[] }> {
  const open: Open[] = []
  for (let i = 0; i < text.length;) {
    const char = text[i] as string
    const inner = open.at(-1)
    if (char === '"') {
      const end = endOfString(text, i)
      // A string in an object with a colon behind it is a name. The name of a value was read before it.
      if (inner && !inner.list && /^\s*:/.test(text.slice(end, end + 64)))
        inner.at = JSON.parse(text.slice(i, end)) as string
      i = end
      continue
    }
    if (char === '{' || char === '[') open.push({ list: char === '[', at: char === '[' ? 0 : '' })
    else if (char === '}' || char === ']') open.pop()
    else if (char === ',' && inner?.list) inner.at = Number(inner.at) + 1
    else if (char === '-' || (char >= '0' && char <= '9')) {
      NUMBER.lastIndex = i
      const [literal = char] = NUMBER.exec(text) ?? []
      yield { literal, path: open.map(({ at }) => at) }
      i += literal.length
      continue
    }
    i++
  }
}

/** The position behind the closing quote of a string. */
function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    if (text[i] === '\\') i++
    else if (text[i] === '"') return i + 1
  }
  return text.length
}
