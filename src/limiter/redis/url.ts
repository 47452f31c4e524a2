import { createClient } from 'redis'
import type { LimitBackend } from '../contract/limiter.ts'
import { RedisBackend } from './backend.ts'

/** The pauses between attempts to connect again, in ms. */
const FIRST_RETRY_MS = 20
const SLOWEST_RETRY_MS = 200

/** Opens a connection of its own, which connects again by itself. */
export function redisBackendOf(url: string, namespace: string): LimitBackend {
  const client = createClient({
    url,
    // A command that waits for a connection would be carried out when its caller has given it up.
    disableOfflineQueue: true,
    socket: { reconnectStrategy: (retries) => Math.min(FIRST_RETRY_MS * 2 ** Math.min(retries, 10), SLOWEST_RETRY_MS) },
  })
  // Every command tells its own failure.
  client.on('error', () => undefined)
  let connecting: Promise<unknown> | null = client.connect().then(
    () => (connecting = null),
    () => (connecting = null),
  )
  const sendCommand = async (args: string[]): Promise<unknown> => {
    if (connecting) await connecting
    return client.sendCommand(args)
  }
  return new RedisBackend({ sendCommand }, { namespace, close: async () => client.destroy() })
}
