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
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new SluiceError(code, `${what} is ${show(value)}; give an object of ${names.join(', ')}`)
  for (const name of Object.keys(value)) {
    if (names.includes(name)) continue
    const hint = didYouMean(name, names, Object.hasOwn(meant, name) ? meant[name] : undefined)
    throw new SluiceError(
      code,
      `${what}: there is no option ${JSON.stringify(name.slice(0, 60))}; ${hint}it knows ${names.join(', ')}`,
    )
  }
}

/** A value as a message may show it: short, and never an exception of its own. */
export function show(value: unknown): string {
  if (typeof value === 'string') return `'${value.slice(0, 60)}'`
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object' && value !== null) return 'an object'
  return typeof value === 'function' ? 'a function' : String(value)
}
