import { SluiceError } from './errors.ts'
import { show } from './options.ts'

/** The lowest priority. */
export const LOWEST_PRIORITY = -100
/** The highest priority: it starts first. */
export const HIGHEST_PRIORITY = 100

/** Checks a priority. @throws {SluiceError} `priority.invalid` */
export function checkPriority(priority: number, what: string): number {
  if (Number.isInteger(priority) && priority >= LOWEST_PRIORITY && priority <= HIGHEST_PRIORITY) return priority
  throw new SluiceError(
    'priority.invalid',
    `The priority of ${what} is invalid: ${show(priority)}. Expected a whole number from -100 to 100.`,
  )
}
