// Keys that are used once leave nothing behind on NATS.
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { afterAll, describe, expect, it } from 'vitest'
import { createLimiter, limit } from '../../src/exports/limiter.ts'
import { service } from '../services.ts'
import { namespace } from './redis-server.ts'

const url = await service('nats', 'keys of the limiter on NATS')
const connection = url === null ? null : await connect({ servers: new URL(url).host })

describe.skipIf(connection === null)('buckets of many keys on NATS', () => {
  afterAll(async () => connection?.close())

  it('go once they equal new ones, and read as new', async () => {
    const api = limit('api', { rate: 100, per: '100ms' })
    const name = namespace()
    const limiter = createLimiter({ backend: url ?? '', namespace: name, limits: [api] })
    await Promise.all(Array.from({ length: 300 }, (_, i) => limiter.acquire([api.key(i)])))
    if (!connection) throw new Error('no NATS')
    const kv = await new Kvm(connection).open(`sluice_${Buffer.from(name).toString('base64url')}`)
    // The limits, and the clock of this process.
    await expect.poll(async () => (await kv.status()).values).toBeLessThanOrEqual(2)
    expect(await limiter.inspect(api.key(7))).toMatchObject({ available: 100, active: 0 })
    await limiter.close()
    await kv.destroy()
  })
})
