import { SluiceError } from '../base/errors.ts'

/** Which messaging system this is, by OpenTelemetry's conventions. */
export const SYSTEM: { readonly 'messaging.system': 'sluice' } = { 'messaging.system': 'sluice' }

/** What kind of error it is, for a label: the code of one of ours, else the name of its class; never its message. */
export function errorType(error: Error): string {
  return error instanceof SluiceError ? error.code : error.name
}
