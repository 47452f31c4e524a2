import { SluiceError } from '../../base/errors.ts'
import { show } from '../../base/options.ts'

/**
 * The values to hide in payloads, results and metadata. A list: values of these keys, beside those that look like secrets.
 * A function: it answers what is shown in place of a value, at its path. False: nothing is hidden.
 */
export type Redact = readonly string[] | ((path: readonly string[], value: unknown) => unknown) | false

/** Shown in place of a hidden value. */
const HIDDEN = '[redacted]'
const SECRET =
  /^(.*[-_. ])?(authorization|cookie|credentials?|jwt|pass(code|phrase|wd|word)?|private[-_]?key|pwd|secrets?|session|ssn|token|api[-_]?key|access[-_]?key|(client|shared)[-_]?secret|card[-_]?number|cvv|cvc|iban)$/i
const CAMEL = /([a-z\d])([A-Z])/g
const DEEPEST = 200

/** Hides values of JSON. */
export type Redactor = <T>(value: T) => T

/** Makes the redactor of a server. @throws {SluiceError} `option.invalid` */
export function redactor(redact: Redact = []): Redactor {
  if (redact === false) return (value) => value
  if (typeof redact === 'function') {
    const hide = (path: readonly string[], value: unknown): unknown => redact(path, value)
    return (value) => walk(value, hide, []) as typeof value
  }
  if (!Array.isArray(redact) || !redact.every((key) => typeof key === 'string' && key !== ''))
    throw new SluiceError(
      'option.invalid',
      `redact is invalid: ${show(redact)}. Expected a list of keys, a function (path, value) => shown, or false.`,
    )
  const keys = new Set(redact.map(plain))
  const hide = (path: readonly string[], value: unknown): unknown => {
    const key = path.at(-1)
    if (key === undefined || value === null) return value
    return keys.has(plain(key)) || SECRET.test(key.replaceAll(CAMEL, '$1_$2')) ? HIDDEN : value
  }
  return (value) => walk(value, hide, []) as typeof value
}

function plain(key: string): string {
  return key.toLowerCase().replaceAll(/[-_. ]/g, '')
}

function walk(
  value: unknown,
  hide: (path: readonly string[], value: unknown) => unknown,
  path: readonly string[],
): unknown {
  const shown = hide(path, value)
  if (typeof shown !== 'object' || shown === null || path.length >= DEEPEST) return shown
  if (Array.isArray(shown)) return shown.map((item, i) => walk(item, hide, [...path, String(i)]))
  return Object.fromEntries(Object.entries(shown).map(([key, inner]) => [key, walk(inner, hide, [...path, key])]))
}
