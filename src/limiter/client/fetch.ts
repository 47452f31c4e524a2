import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { type Feedback, ifReached } from './feedback.ts'
import type { GrantedStart } from './permit.ts'
import type { Use } from './uses.ts'

/** The options of `limiter.fetch`. */
export interface FetchOptions {
  /** The buckets that a request takes from; an empty list: it is not limited. */
  uses: (request: Request) => readonly Use[]
  /** How long a request waits for its budget; default `true`, without bound. */
  wait?: Duration | boolean
  /** −100 to 100; default 0. */
  priority?: number
  /** How often a request that was refused (429) is sent again, each time after its budget; 0 to 10, default 0. */
  retries?: number
  /** Default: the fetch of the platform. */
  fetch?: typeof fetch
}

/** The parts of a limited fetch. */
export interface FetchParts {
  readonly acquire: (
    uses: readonly Use[],
    options: { wait: Duration | boolean; priority: number; signal: AbortSignal },
  ) => Promise<GrantedStart>
  readonly feedback: Feedback
}

const MOST_RETRIES = 10

/** Makes a fetch that waits for its budget, and learns from the answers. @throws {SluiceError} `option.invalid` */
export function limitedFetch(options: FetchOptions, { acquire, feedback }: FetchParts): typeof fetch {
  checkOptions(options, ['uses', 'wait', 'priority', 'retries', 'fetch'], 'limiter.fetch')
  const { uses, wait = true, priority = 0, retries = 0, fetch: send = fetch } = options
  if (typeof uses !== 'function')
    throw new SluiceError(
      'option.invalid',
      `uses of limiter.fetch is invalid: ${show(uses)}. Expected a function of the request.`,
    )
  if (typeof send !== 'function')
    throw new SluiceError('option.invalid', `fetch of limiter.fetch is invalid: ${show(send)}. Expected a function.`)
  if (!Number.isInteger(retries) || retries < 0 || retries > MOST_RETRIES)
    throw new SluiceError(
      'option.invalid',
      `retries of limiter.fetch is invalid: ${show(retries)}. Expected a whole number from 0 to ${MOST_RETRIES}.`,
    )
  return async (input, init) => {
    const request = new Request(input, init)
    const buckets = uses(request)
    if (Array.isArray(buckets) && buckets.length === 0) return send(request)
    for (let left = retries; ; left--) {
      const start = await acquire(buckets, { wait, priority, signal: request.signal })
      feedback.begin(start)
      let response: Response
      try {
        response = await send(left > 0 ? request.clone() : request)
        await ifReached(feedback.observe(start, buckets, response))
      } finally {
        feedback.end(start)
        await ifReached(start.release())
      }
      if (left === 0) return response
      const { isRefusal } = await import('../../jobs/rate-limit-headers.ts')
      if (!isRefusal(response)) return response
      await response.body?.cancel()
    }
  }
}
