import { SluiceError } from '../../base/errors.ts'
import { checkMethods, checkOptions, show } from '../../base/options.ts'
import { isName } from '../../base/text.ts'
import type { LimitBackend } from '../contract/limiter.ts'
import { NatsBackend } from './backend.ts'
import { Entries, type NatsConnection } from './kv.ts'

/**
 * The backend on NATS over a connection of one's own, to a server with JetStream. The limiter does not close it.
 * @param options.namespace 1 to 100 characters; default `sluice`
 * @param options.replicas of the key-value bucket that it makes: 1 to 5; default 1
 * @throws {SluiceError} `option.invalid`
 */
export function natsBackend(
  connection: NatsConnection,
  options: { namespace?: string; replicas?: number } = {},
): LimitBackend {
  checkOptions(options, ['namespace', 'replicas'], 'natsBackend')
  checkMethods(connection, ['publish'], 'The connection of natsBackend')
  const { namespace = 'sluice', replicas = 1 } = options
  if (!isName(namespace, 100))
    throw new SluiceError(
      'option.invalid',
      `namespace of natsBackend is invalid: ${show(namespace)}. Expected 1 to 100 characters, without NUL and half surrogate pairs.`,
    )
  return new NatsBackend(new Entries(async () => connection, namespace, replicas), { close: async () => undefined })
}
