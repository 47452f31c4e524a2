import type { RateLimited } from './rate-limited.ts'

/** Whether an error is a `RateLimited` of any copy of this package. An error that only has its name is ordinary. */
export function isRateLimited(error: unknown): error is RateLimited {
  if (!(error instanceof Error)) return false
  // Its fields and not its class: to know the class, a limiter would have to load what reads headers.
  const { retryAfter, limitName } = error as { retryAfter?: unknown; limitName?: unknown }
  const hasKind = typeof retryAfter === 'object' && retryAfter !== null && 'kind' in retryAfter
  return hasKind && (limitName === null || typeof limitName === 'string')
}
