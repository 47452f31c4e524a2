// Addresses of a Redis: what one of them wants, no other gets, and a failure says what was expected.
import { expect, onTestFinished, test } from 'vitest'
import { redisBackendOf } from '../../src/limiter/redis/url.ts'
import { namespace, REDIS } from './redis-server.ts'

const ready = async (url: string): Promise<string> => {
  const backend = redisBackendOf(url, namespace())
  onTestFinished(() => backend.close())
  return (async () => backend.ready?.())().then(
    () => 'ready',
    (error: unknown) => String(error),
  )
}

test.skipIf(REDIS === null)('an address with TLS changes no other of the process', async () => {
  const url = REDIS ?? ''
  const encrypted = await ready(url.replace('redis:', 'rediss:'))
  expect([encrypted, await ready(url)]).toEqual([expect.stringContaining('needs a port with TLS'), 'ready'])
})

test.skipIf(REDIS === null)('a sentinel and a cluster that are none are told at once, at each call', async () => {
  const url = REDIS ?? ''
  const backend = redisBackendOf(url.replace('redis:', 'redis+sentinel:') + '/mymaster', namespace())
  onTestFinished(() => backend.close())
  for (let i = 0; i < 2; i++)
    await expect(backend.ready?.()).rejects.toMatchObject({
      code: 'limiter.url.invalid',
      message: expect.stringContaining('no sentinel answers there') as string,
    })
  expect(await ready(url.replace('redis:', 'redis+cluster:'))).toContain('no part of a cluster')
})
