import { type ErrorCode, SluiceError } from './errors.ts'
import { didYouMean } from './nearest.ts'

/** How a refusal of options is worded. */
export interface OptionTerms {
  /** Default `option.invalid`. */
  readonly code?: ErrorCode
  /** What callers who write such a name most likely mean, in place of the nearest name: `{ retries: 'retry' }`. */
  readonly meant?: Readonly<Record<string, string>>
}

/**
 * Checks that a value is an object of options, all of which are known: an option that is misspelt would else be ignored, and a limit with it.
 * Only own names count; the values are the caller's to check.
 *
 * @param what names the object in messages, as in `'enqueue of tenant.sync'` or `'retry of task tenant.sync'`.
 * @throws SluiceError `option.invalid`, or the code that the terms name
 */
export function checkOptions(
  value: unknown,
  names: readonly string[],
  what: string,
  { code = 'option.invalid', meant = {} }: OptionTerms = {},
): void {
  const given = ownNames(value)
  if (given === null) throw new SluiceError(code, `${what} is ${show(value)}; give an object of ${names.join(', ')}`)
  for (const name of given) {
    if (names.includes(name)) continue
    const hint = didYouMean(name, names, Object.hasOwn(meant, name) ? meant[name] : undefined)
    throw new SluiceError(
      code,
      `${what}: there is no option ${JSON.stringify(name.slice(0, 60))}; ${hint}it knows ${names.join(', ')}`,
    )
  }
}

/** The names in an object of options; null for anything else: a date or a map has none, and would read as no options at all. */
export function ownNames(value: unknown): string[] | null {
  if (typeof value !== 'object' || value === null) return null
  try {
    return OBJECTS.has(Object.prototype.toString.call(value)) ? Object.keys(value) : null
  } catch {
    return null
  }
}

const OBJECTS: ReadonlySet<string> = new Set(['[object Object]', '[object Module]'])

/** Checks that a value is a text, as an id or a name has to be. @throws SluiceError `option.invalid` */
export function checkText(value: unknown, what: string): string {
  if (typeof value === 'string') return value
  throw new SluiceError('option.invalid', `${what} is ${show(value)}; give a text`)
}

/** Checks that a value has methods of these names, as a clock or a logger has to. @throws SluiceError `option.invalid` */
export function checkMethods(value: unknown, methods: readonly string[], what: string): void {
  if (hasMethods(value, methods)) return
  throw new SluiceError('option.invalid', `${what} is ${show(value)}; it has to have ${methods.join(', ')}`)
}

function hasMethods(value: unknown, methods: readonly string[]): boolean {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return false
  try {
    return methods.every((name) => typeof Reflect.get(value, name) === 'function')
  } catch {
    return false
  }
}

/** A value as a message may show it: short, and never an exception of its own. */
export function show(value: unknown): string {
  if (typeof value === 'string') return `'${value.slice(0, 60)}'`
  if (typeof value === 'object' && value !== null) return isList(value) ? 'a list' : 'an object'
  return typeof value === 'function' ? 'a function' : String(value)
}

/** The same with a text in double quotes, as JSON writes it. */
export function quote(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : show(value)
}

/** A proxy that was revoked says neither. */
function isList(value: object): boolean {
  try {
    return Array.isArray(value)
  } catch {
    return false
  }
}
