import { SluiceError } from '../base/errors.ts'
import { checkOptions, show } from '../base/options.ts'

/** The bounds of one tenant, one token or one answer. All are whole numbers from 1 on. */
export interface Bounds {
  /** Limits of a tenant; default 1,000. All callers without a tenant count as one, here and below. */
  readonly limits?: number
  /** Schedules of a tenant; default 1,000. */
  readonly schedules?: number
  /** Queues of a tenant; default 1,000. */
  readonly queues?: number
  /** Workers of a tenant that have called within the last minute; default 10,000. */
  readonly workers?: number
  /** Event streams that a token holds open on this process; default 100. All callers without tokens count as one. */
  readonly streams?: number
  /** Requests of a token that wait on this process, as fetches for work and drains do; default 1,000. */
  readonly polls?: number
  /** Changes of many jobs that a token has under way on this process; default 20. */
  readonly bulks?: number
  /** Bytes of payloads in one page or fetch of jobs; default 8 MiB. One job may exceed it by itself. */
  readonly answerBytes?: number
}

const DEFAULTS: Required<Bounds> = {
  limits: 1000,
  schedules: 1000,
  queues: 1000,
  workers: 10_000,
  streams: 100,
  polls: 1000,
  bulks: 20,
  answerBytes: 8_388_608,
}
const MOST = 1_000_000_000

/** Adds the defaults to bounds. @throws {SluiceError} `option.invalid` */
export function boundsOf(bounds: Bounds = {}): Required<Bounds> {
  checkOptions(bounds, Object.keys(DEFAULTS), 'bounds of the server')
  for (const [name, value] of Object.entries(bounds) as [string, unknown][])
    if (!Number.isInteger(value) || Number(value) < 1 || Number(value) > MOST)
      throw new SluiceError(
        'option.invalid',
        `bounds.${name} of the server is invalid: ${show(value)}. Expected a whole number from 1 to ${MOST}.`,
      )
  return { ...DEFAULTS, ...bounds }
}
