import { type ErrorCode, SluiceError } from './errors.ts'
import { didYouMean } from './nearest.ts'
import { beginningOf, isTaskName } from './text.ts'

/** The error code and the hints of an option check. */
export interface OptionTerms {
  /** Default `option.invalid`. */
  readonly code?: ErrorCode
  /** The name that a caller likely wanted, in place of the nearest name: `{ retries: 'retry' }`. */
  readonly aliases?: Readonly<Record<string, string>>
}

/**
 * Checks that a value is an object whose own names are all known options. Otherwise a misspelt option would be ignored,
 * and with it perhaps a limit. The caller checks the values.
 *
 * @param what names the object in messages, as in `'enqueue of tenant.sync'` or `'retry of task tenant.sync'`.
 * @throws {SluiceError} `option.invalid`, or the code that the terms name
 */
export function checkOptions(
  value: unknown,
  names: readonly string[],
  what: string,
  { code = 'option.invalid', aliases = {} }: OptionTerms = {},
): void {
  const found = ownNames(value)
  if (found === null)
    throw new SluiceError(code, `${what} is invalid: ${show(value)}. Expected an object of ${names.join(', ')}.`)
  for (const name of found) {
    if (names.includes(name)) continue
    const hint = didYouMean(name, names, Object.hasOwn(aliases, name) ? aliases[name] : undefined)
    throw new SluiceError(code, `${what} has no option ${quote(name)}${hint}Expected ${names.join(', ')}.`)
  }
}

/**
 * The names in an object of options, or null for any other value. A date or a map has no own names and would pass as
 * empty options.
 */
export function ownNames(value: unknown): string[] | null {
  if (typeof value !== 'object' || value === null) return null
  try {
    return OBJECTS.has(Object.prototype.toString.call(value)) ? Object.keys(value) : null
  } catch {
    return null
  }
}

const OBJECTS: ReadonlySet<string> = new Set(['[object Object]', '[object Module]'])

/** Checks that a value is a string, as an id or a name must be. @throws {SluiceError} `option.invalid` */
export function checkText(value: unknown, what: string): string {
  if (typeof value === 'string') return value
  throw new SluiceError('option.invalid', `${what} is invalid: ${show(value)}. Expected a text.`)
}

/** Checks the name of a task, a workflow, a machine or a graph. @throws {SluiceError} `task.name.invalid` */
export function checkTaskName(name: unknown, what: string): void {
  if (isTaskName(name)) return
  throw new SluiceError(
    'task.name.invalid',
    `${what} is invalid: ${quote(name)}. Expected lower case words with dots between them, such as tenant.sync.`,
  )
}

/** Checks that a value has these methods, as a clock or a logger must. @throws {SluiceError} `option.invalid` */
export function checkMethods(value: unknown, methods: readonly string[], what: string): void {
  if (hasMethods(value, methods)) return
  throw new SluiceError(
    'option.invalid',
    `${what} is invalid: ${show(value)}. Expected the methods ${methods.join(', ')}.`,
  )
}

function hasMethods(value: unknown, methods: readonly string[]): boolean {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return false
  try {
    return methods.every((name) => typeof Reflect.get(value, name) === 'function')
  } catch {
    return false
  }
}

/** Formats any value for a message: short, and without throwing. */
export function show(value: unknown): string {
  if (typeof value === 'string') return shortened(value, (text) => `'${text}'`)
  if (typeof value === 'object' && value !== null) return isList(value) ? 'a list' : 'an object'
  return typeof value === 'function' ? 'a function' : String(value)
}

/** Formats a value like `show`, with a string in double quotes as in JSON. */
export function quote(value: unknown): string {
  return typeof value === 'string' ? shortened(value, JSON.stringify) : show(value)
}

/** Formats a name or an id for a message, without quotes. */
export function brief(name: string): string {
  return shortened(name, (text) => text)
}

/** A text in quotes. Two long texts with the same beginning still differ by their lengths. */
function shortened(text: string, quoted: (text: string) => string): string {
  if (text.length <= LONGEST_SHOWN) return quoted(text)
  return `${quoted(`${beginningOf(text, LONGEST_SHOWN)}…`)} (${text.length} characters)`
}

const LONGEST_SHOWN = 60

/** Array.isArray throws for a revoked proxy. */
function isList(value: object): boolean {
  try {
    return Array.isArray(value)
  } catch {
    return false
  }
}
