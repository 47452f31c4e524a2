import { SluiceError } from '../base/errors.ts'

/** The messaging system, by OpenTelemetry's conventions. */
export const SYSTEM: { readonly 'messaging.system': 'sluice' } = { 'messaging.system': 'sluice' }

/** An error's type for a label: a SluiceError's code, otherwise its class name. Never its message. */
export function errorType(error: Error): string {
  return error instanceof SluiceError ? error.code : error.name
}
