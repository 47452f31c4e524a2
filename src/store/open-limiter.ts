import type { Clock } from '../base/clock.ts'
import type { LimitBackend } from '../limiter/contract/limiter.ts'
import { createStore } from './open.ts'
import { USUAL_RETENTION } from './contract/retention.ts'
import { StoreLimiter } from './limiter/store-limiter.ts'

/**
 * The limits of a store, which it opens and closes.
 * @throws {SluiceError} `store.url.invalid`, `store.version`, `store.io`
 */
export async function storeLimiterOf(url: string, namespace: string | null, clock: Clock): Promise<LimitBackend> {
  const store = await createStore(url, { clock, durability: 'power', retention: USUAL_RETENTION })
  await store.open()
  const detach = clock.attach?.({ pending: () => store.pending, running: () => 0 })
  const closed = async (): Promise<void> => {
    await store.close()
    detach?.()
  }
  return new StoreLimiter({ store, clock, closed, prefix: namespace === null ? '' : `${namespace}/` })
}
