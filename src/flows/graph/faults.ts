import { type ErrorCode, SluiceError } from '../../base/errors.ts'
import { within } from '../../base/json-text.ts'
import { didYouMean } from '../../base/nearest.ts'
import { ownNames, quote } from '../../base/options.ts'

/** The faults of a definition, and their places. */
export interface Fault {
  /** As in `steps.llm.limits[0].by`; empty: the definition as a whole. */
  readonly path: string
  readonly code: ErrorCode
  readonly message: string
}

/** A part of a definition whose names are known. */
export type Fields = Readonly<Record<string, unknown>>

/** Gathers the faults of a definition, so that all of them are answered at once. */
export class Faults {
  readonly list: Fault[] = []

  /** Adds one. */
  add(path: string, code: ErrorCode, message: string): void {
    this.list.push({ path, code, message })
  }

  /** Adds one for a value of the wrong form. */
  expected(path: string, value: unknown, form: string): void {
    this.add(path, 'graph.field.invalid', `${path} is invalid: ${quote(value)}. Expected ${form}.`)
  }

  /** Runs a check that throws, and turns its error into a fault. */
  caught<T>(path: string, check: () => T): T | undefined {
    try {
      return check()
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error
      this.add(path, error.code, error.message)
      return undefined
    }
  }

  /** The fields of an object; null for any other value. Unknown ones are faults, and so is another value. */
  fields(value: unknown, names: readonly string[], path: string): Fields | null {
    const found = ownNames(value)
    if (found === null) {
      const what = path === '' ? 'The definition' : path
      this.add(
        path,
        'graph.field.invalid',
        `${what} is invalid: ${quote(value)}. Expected an object of ${names.join(', ')}.`,
      )
      return null
    }
    for (const name of found) {
      if (names.includes(name)) continue
      const hint = didYouMean(name, names)
      this.add(
        within(path, name),
        'graph.field.unknown',
        `${path === '' ? 'A graph' : path} has no field ${quote(name)}${hint}Expected ${names.join(', ')}.`,
      )
    }
    return value as Fields
  }
}
