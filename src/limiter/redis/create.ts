import { checkOptions, show } from '../../base/options.ts'
import { SluiceError } from '../../base/errors.ts'
import { isName } from '../../base/text.ts'
import type { LimitBackend } from '../contract/limiter.ts'
import { RedisBackend } from './backend.ts'
import type { RedisClient } from './client.ts'

/**
 * The backend on Redis over a client of one's own, connected, of the package `redis` or `ioredis`. The limiter does not
 * close it. Give the client no queue for the time offline (`disableOfflineQueue`, `enableOfflineQueue: false`).
 * @param options.namespace 1 to 255 characters; default `sluice`
 * @throws {SluiceError} `option.invalid`
 */
export function redisBackend(client: RedisClient, options: { namespace?: string } = {}): LimitBackend {
  checkOptions(options, ['namespace'], 'redisBackend')
  const { namespace = 'sluice' } = options
  if (!isName(namespace))
    throw new SluiceError(
      'option.invalid',
      `namespace of redisBackend is invalid: ${show(namespace)}. Expected 1 to 255 characters, without NUL and half surrogate pairs.`,
    )
  return new RedisBackend(client, { namespace, close: async () => undefined })
}
