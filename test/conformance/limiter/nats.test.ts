import { connect } from '@nats-io/transport-node'
import { Kvm } from '@nats-io/kv'
import { afterAll, describe, it } from 'vitest'
import { NatsBackend } from '../../../src/limiter/nats/backend.ts'
import { Entries } from '../../../src/limiter/nats/kv.ts'
import { createManualClock } from '../../../src/testing/manual-clock.ts'
import { namespace } from '../../limiter/redis-server.ts'
import { service } from '../../services.ts'
import { limiterSuite } from '../../../src/exports/testing/limiter-suite.ts'

const url = await service('nats', 'the limiter on NATS')
const connection = url === null ? null : await connect({ servers: new URL(url).host })

describe.skipIf(connection === null)('NATS', () => {
  afterAll(async () => connection?.close())

  limiterSuite(
    'NATS',
    async () => {
      if (!connection) throw new Error('no NATS')
      const clock = createManualClock()
      const name = namespace()
      const nowUs = (): number => Math.round(clock.now() * 1000)
      const close = async (): Promise<void> => {
        const kv = await new Kvm(connection).open(`sluice_${Buffer.from(name).toString('base64url')}`)
        await kv.destroy()
      }
      const backend = new NatsBackend(new Entries(async () => connection, name, 1), { close, nowUs })
      return { backend, advance: (ms) => clock.advance(ms), close }
    },
    { describe, it },
  )
})
