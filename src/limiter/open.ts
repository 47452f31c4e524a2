import type { Clock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import { Once } from '../base/promises.ts'
import { withoutPassword } from '../base/text.ts'
import type { BackendLoader, LimitBackend } from './contract/limiter.ts'
import { MemoryBackend } from './memory/memory.ts'

/**
 * A loader of the backend behind an address. The address is checked now; the call loads the backend. A ready backend is
 * returned as it is.
 * @throws {SluiceError} `limiter.url.invalid`
 */
export function backendLoader(backend: string | LimitBackend, namespace: string, clock: Clock): BackendLoader {
  if (typeof backend !== 'string') return { isLocal: backend.isLocal, load: async () => backend }
  if (backend === 'memory:') {
    const memory = new MemoryBackend(clock)
    return { isLocal: true, load: async () => memory }
  }
  if (/^rediss?:\/\//.test(backend) && URL.canParse(backend)) {
    const redis = new Once(async () => (await import('./redis/url.ts')).redisBackendOf(backend, namespace))
    return { isLocal: false, load: () => redis.done() }
  }
  if (backend.startsWith('nats://') && URL.canParse(backend)) {
    const nats = new Once(async () => (await import('./nats/url.ts')).natsBackendOf(backend, namespace))
    return { isLocal: false, load: () => nats.done() }
  }
  throw new SluiceError(
    'limiter.url.invalid',
    `The backend is invalid: ${JSON.stringify(withoutPassword(backend))}. Expected memory:, redis://host, rediss://host, nats://host, or a backend.`,
  )
}
