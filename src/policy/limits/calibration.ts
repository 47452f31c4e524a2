import { SluiceError } from '../../base/errors.ts'
import { didYouMean } from '../../base/nearest.ts'
import { show } from '../../base/options.ts'
import type { Calibration } from './limit.ts'

const CHOICES: Readonly<Record<string, readonly string[]>> = {
  from: ['headers'],
  direction: ['down', 'both'],
  reset: ['window', 'refill'],
}

/** Checks the option `calibrate` of a policy. @throws {SluiceError} `policy.invalid` */
export function calibration(value: unknown, what: string): Calibration {
  if (value === 'headers') return { direction: 'down', reset: 'window', budget: null }
  if (typeof value !== 'object' || value === null)
    throw invalid(what, `calibrate is invalid: ${show(value)}. Expected 'headers' or { from: 'headers' }.`)
  const fields = value as Readonly<Record<string, unknown>>
  for (const [field, given] of Object.entries(fields)) {
    const choices = Object.hasOwn(CHOICES, field) ? CHOICES[field] : undefined
    if (field === 'budget' && (given === undefined || (typeof given === 'string' && given !== ''))) continue
    if (field === 'budget')
      throw invalid(what, `calibrate.budget is invalid: ${show(given)}. Expected a name such as 'tokens'.`)
    if (!choices) {
      const hint = didYouMean(field, [...Object.keys(CHOICES), 'budget'])
      throw invalid(what, `calibrate has no field ${field}${hint}Expected from, direction, reset and budget.`)
    }
    if (given !== undefined && !choices.includes(given as string))
      throw invalid(
        what,
        `calibrate.${field} is invalid: ${show(given)}. Expected ${choices.map((each) => `'${each}'`).join(' or ')}.`,
      )
  }
  if (fields['from'] === undefined) throw invalid(what, "calibrate needs a source. Add from: 'headers'.")
  return {
    direction: fields['direction'] === 'both' ? 'both' : 'down',
    reset: fields['reset'] === 'refill' ? 'refill' : 'window',
    budget: (fields['budget'] as string | undefined) ?? null,
  }
}

function invalid(what: string, message: string): SluiceError {
  return new SluiceError('policy.invalid', `${what}: ${message}`)
}
