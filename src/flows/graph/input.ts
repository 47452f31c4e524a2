import { SluiceError } from '../../base/errors.ts'
import { validate } from '../../jobs/schema.ts'
import { misfit } from './misfit.ts'
import type { GraphModel } from './model.ts'

/**
 * The input of a flow, checked by the graph's schema; a promise if the schema answers one.
 * @throws {SluiceError} `input.invalid`
 */
export function inputOf(model: Pick<GraphModel, 'form' | 'schema' | 'shape'>, value: unknown): unknown {
  const what = `the input of graph ${model.form.name}`
  if (model.schema) return validate(model.schema, value, what)
  const why = model.shape && misfit(model.shape, value)
  if (why) throw new SluiceError('input.invalid', `${what} is invalid: ${why}.`)
  return value
}
