import { afterAll, describe, it } from 'vitest'
import { RedisBackend } from '../../../src/limiter/redis/backend.ts'
import { createManualClock } from '../../../src/testing/manual-clock.ts'
import { clear, connect, namespace, REDIS } from '../../limiter/redis-server.ts'
import { limiterSuite } from '../../../src/exports/testing/limiter-suite.ts'

const client = REDIS === null ? null : await connect()

describe.skipIf(client === null)('Redis', () => {
  afterAll(async () => client?.close())

  limiterSuite(
    'Redis',
    async () => {
      if (!client) throw new Error('no Redis')
      const clock = createManualClock()
      const name = namespace()
      const nowUs = (): number => Math.round(clock.now() * 1000)
      const close = (): Promise<void> => clear(client, name)
      const backend = new RedisBackend(client, { namespace: name, close, nowUs })
      return { backend, advance: (ms) => clock.advance(ms), close }
    },
    { describe, it },
  )
})
