import type { Clock } from '../base/clock.ts'
import { Once } from '../base/promises.ts'
import { isAddress, refuseAddress } from './contract/address.ts'
import type { BackendLoader, LimitBackend } from './contract/limiter.ts'
import { MemoryBackend } from './memory/memory.ts'

/**
 * A loader of the backend behind an address. The address is checked now; the call loads the backend. A ready backend is
 * returned as it is.
 * @throws {SluiceError} `limiter.url.invalid`
 */
export function backendLoader(backend: string | LimitBackend, given: string | null, clock: Clock): BackendLoader {
  const namespace = given ?? 'sluice'
  if (typeof backend !== 'string') {
    const { isLocal } = backend
    return { isLocal, hasWaitLists: backend.wait !== undefined, load: async () => backend }
  }
  if (backend === 'memory:') {
    const memory = new MemoryBackend(clock)
    return { isLocal: true, hasWaitLists: false, load: async () => memory }
  }
  if (STORE.test(backend)) {
    const store = new Once(async () => (await import('../store/open-limiter.ts')).storeLimiterOf(backend, given, clock))
    return { isLocal: true, hasWaitLists: true, load: () => store.done() }
  }
  if (!isAddress(backend)) refuseAddress(backend, 'sqlite:./file.db, postgres://host/database, ')
  const code = new Once(async () =>
    backend.startsWith('nats:')
      ? (await loaded(import('./nats/url.ts'), NATS)).natsBackendOf(backend, namespace)
      : (await loaded(import('./redis/url.ts'), 'redis')).redisBackendOf(backend, namespace),
  )
  return { isLocal: false, hasWaitLists: false, load: () => code.done() }
}

/** Removes the limits of a namespace from a Redis or a NATS. */
export async function removeLimits(url: string, namespace: string): Promise<void> {
  const code = url.startsWith('nats://')
    ? loaded(import('./nats/url.ts'), NATS)
    : loaded(import('./redis/url.ts'), 'redis')
  await (await code).removeLimits(url, namespace)
}

/** The address of a store; the store itself checks the rest. */
const STORE = /^(?:sqlite:.|postgres(?:ql)?:\/\/.)/
const NATS = '@nats-io/kv @nats-io/transport-node'

/** A backend's code, whose packages are optional. @throws {SluiceError} `package.missing` */
function loaded<T>(code: Promise<T>, packages: string): Promise<T> {
  return code.catch(async (cause: unknown) => {
    const { packageError } = await import('../base/optional-package.ts')
    throw packageError(cause, 'The backend', packages)
  })
}
