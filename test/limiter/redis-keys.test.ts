import { afterAll, describe, expect, it } from 'vitest'
import { RedisBackend } from '../../src/limiter/redis/backend.ts'
import { EPOCH_US, policyOf, rate } from '../policy/histories.ts'
import { clear, connect, namespace, REDIS } from './redis-server.ts'

const client = REDIS === null ? null : await connect()

describe.skipIf(client === null)('a bucket on Redis', () => {
  const name = `${namespace()}:{a}`
  afterAll(async () => {
    if (client) await clear(client, name.replace(/[{}]/g, '?'))
    await client?.close()
  })

  it('has the override of its key, whatever characters key, limit and namespace hold', async () => {
    if (!client) throw new Error('no Redis')
    const backend = new RedisBackend(client, { namespace: name, nowUs: () => EPOCH_US, close: async () => undefined })
    const limit = 'a:b {c} %3A'
    const keys = ['x', 'x:y', '{x}:b:y:z', ':b:', 'ü:%']
    await backend.define([{ name: limit, policy: policyOf(rate(10, 1_000_000)), version: 0 }])
    const terms = { kind: 'override', limit, forUs: null, by: null, reason: null } as const
    for (const [i, key] of keys.entries()) await backend.change({ ...terms, key, change: { burst: i + 1 } })
    for (const [i, key] of [...keys, 'other'].entries()) {
      const request = { priority: 0, line: 0, permit: '', leaseUs: 1 }
      const asked = Array.from({ length: 12 }, () => ({ ...request, uses: [{ limit, key, weight: 1 }] }))
      const answers = await backend.acquire(asked)
      const granted = answers.filter(({ kind }) => kind === 'granted').length
      expect({ key, granted }).toEqual({ key, granted: key === 'other' ? 10 : i + 1 })
    }
  })
})
