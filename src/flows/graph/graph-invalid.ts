import { SluiceError } from '../../base/errors.ts'
import type { Fault } from './faults.ts'

/** The error for a definition with faults; its cause is the list of them. */
export function graphInvalid(name: unknown, faults: readonly Fault[]): SluiceError {
  const of = typeof name === 'string' && name !== '' ? ` ${name.slice(0, 60)}` : ''
  const shown = faults
    .slice(0, SHOWN)
    .map(({ path, message }) => (message.startsWith(path) ? message : `${path}: ${message}`))
  const more = faults.length > SHOWN ? [`and ${faults.length - SHOWN} more`] : []
  return new SluiceError('graph.invalid', `The graph${of} is invalid: ${[...shown, ...more].join(' ')}`, {
    cause: faults,
  })
}

const SHOWN = 10
