import { SluiceError } from '../base/errors.ts'
import { checkOptions, show } from '../base/options.ts'

/** How much of the server one tenant, one token or one answer may take up. All are whole numbers from 1 on. */
export interface Bounds {
  /** Limits of a tenant; 1,000 by default. Callers without a tenant are one together, here and below. */
  readonly limits?: number
  /** Schedules of a tenant; 1,000 by default. */
  readonly schedules?: number
  /** Queues of a tenant; 1,000 by default. */
  readonly queues?: number
  /** Streams of events that a token holds open on this process; 100 by default. Callers without tokens are one together. */
  readonly streams?: number
  /** Fetches that wait for work for a token on this process; 1,000 by default. */
  readonly polls?: number
  /** Bytes of payloads in one page or fetch of jobs; 8 MiB by default. One job may exceed it by itself. */
  readonly answerBytes?: number
}

const DEFAULTS: Required<Bounds> = {
  limits: 1000,
  schedules: 1000,
  queues: 1000,
  streams: 100,
  polls: 1000,
  answerBytes: 8_388_608,
}
const MOST = 1_000_000_000

/** Bounds with their defaults. @throws option.invalid */
export function boundsOf(given: Bounds = {}): Required<Bounds> {
  checkOptions(given, Object.keys(DEFAULTS), 'bounds of the server')
  for (const [name, value] of Object.entries(given) as [string, unknown][])
    if (!Number.isInteger(value) || Number(value) < 1 || Number(value) > MOST)
      throw new SluiceError(
        'option.invalid',
        `bounds.${name} of the server is ${show(value)}. Expected a whole number from 1 to ${MOST}.`,
      )
  return { ...DEFAULTS, ...given }
}
