import type { StandardSchemaV1 } from '@standard-schema/spec'
import { SluiceError } from '../base/errors.ts'
import { show } from '../base/options.ts'
import { messageOf } from '../base/thrown.ts'

const MAX_ISSUES_SHOWN = 10

/** A schema of any library that implements Standard Schema (zod, valibot, arktype and others). */
export type Schema<I = unknown, O = I> = StandardSchemaV1<I, O>

/**
 * Checks a value against a schema and returns the schema's output; a promise if the schema is asynchronous.
 *
 * @param what names the value in the message, as in `'the input of task tenant.sync'`.
 * @throws {SluiceError} `input.invalid` (a rejection for an asynchronous schema), with the path and message of up to
 * ten issues
 */
export function validate<O>(
  schema: Schema<never, O> | Schema<unknown, O>,
  value: unknown,
  what: string,
): O | Promise<O> {
  let result: StandardSchemaV1.Result<O> | Promise<StandardSchemaV1.Result<O>>
  try {
    result = schema['~standard'].validate(value)
  } catch (cause) {
    throw threw(what, cause)
  }
  if (!isObject(result) || !('then' in result)) return output(result, what)
  return result.then(
    (settled) => output(settled, what),
    (cause: unknown) => {
      throw threw(what, cause)
    },
  )
}

/** Checks that a value is a Standard Schema, unlike a JSON Schema. @throws {SluiceError} `option.invalid` */
export function checkSchema(schema: unknown, what: string): void {
  const standard = isObject(schema) ? (schema as { '~standard'?: unknown })['~standard'] : undefined
  if (isObject(standard) && typeof (standard as { validate?: unknown }).validate === 'function') return
  const hint = isObject(schema) && ('type' in schema || '$schema' in schema || 'properties' in schema)
  throw new SluiceError(
    'option.invalid',
    `${what} is invalid: not a Standard Schema${hint ? ', but looks like a JSON Schema' : ''}. Expected a schema of zod, valibot or arktype, or input<T>() for an unchecked type.`,
  )
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

/** A schema that checks nothing: gives a task's input a type without a validator. */
export function input<T>(): Schema<T, T> {
  return { '~standard': { version: 1, vendor: 'sluice', validate: (value) => ({ value: value as T }) } }
}

function output<O>(result: StandardSchemaV1.Result<O>, what: string): O {
  // A schema written by hand may answer anything.
  if (!isObject(result) || !('value' in result || 'issues' in result))
    throw new SluiceError(
      'input.invalid',
      `${what} could not be checked: its schema answered ${show(result)}. Expected { value } or { issues }.`,
    )
  if (result.issues === undefined) return result.value
  const shown = result.issues.slice(0, MAX_ISSUES_SHOWN).map(issueText)
  const more = result.issues.length - shown.length
  if (more > 0) shown.push(`and ${more} more`)
  throw new SluiceError('input.invalid', `${what} does not match its schema: ${shown.join('; ')}`, {
    cause: result.issues,
  })
}

function issueText(issue: StandardSchemaV1.Issue): string {
  const path = (issue.path ?? []).map((step) => (typeof step === 'object' ? step.key : step))
  const text = path.map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('')
  return text === '' ? issue.message : `${text.replace(/^\./, '')}: ${issue.message}`
}

function threw(what: string, cause: unknown): SluiceError {
  const why = messageOf(cause)
  return new SluiceError('input.invalid', `${what} could not be checked: its schema threw: ${why}`, { cause })
}
