import { checkBackend, checkLimiterOptions, type LimiterOptions } from './client/options.ts'
import { Limiter } from './client/limiter.ts'
import type { LimitBackend } from './contract/limiter.ts'
import { backendLoader } from './open.ts'

/**
 * Creates a limiter: plain code under budgets, without jobs. It opens its backend with the first call.
 * @throws {SluiceError} `option.invalid`, `duration.invalid`, `limit.conflict`, `limiter.url.invalid`
 */
export function createLimiter(options: LimiterOptions): Limiter {
  const checked = checkLimiterOptions(options)
  return new Limiter(checked, backendLoader(checked.backend, checked.namespace, checked.clock))
}

/**
 * Checks a backend of one's own, for the option `backend`. It may throw when it cannot be reached: any error that is not
 * a `SluiceError` counts as that.
 * @throws {SluiceError} `option.invalid` for a missing verb
 */
export function defineBackend(backend: LimitBackend): LimitBackend {
  checkBackend(backend)
  return backend
}
