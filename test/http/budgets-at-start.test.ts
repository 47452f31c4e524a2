// The backend of a server's budgets as the server starts: what refuses ends the start, what is away gives a warning.
import { expect, onTestFinished, test } from 'vitest'
import { SluiceError, silentLogger } from '../../src/exports/index.ts'
import { createHttpApp } from '../../src/exports/http.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { HttpHarness, type Json } from './http-harness.ts'

/** A server whose budgets' backend answers as a function does; the failure of its definition, and its warnings. */
async function defined(ready: () => Promise<void>) {
  const d = await HttpHarness.open()
  const warnings: [Json, string][] = []
  const logger = { ...silentLogger, warn: (fields: object, text?: string) => void warnings.push([fields, text ?? '']) }
  const budgets = Object.assign(new MemoryBackend(d.clock), { ready })
  const app = createHttpApp({
    sluice: d.sluice,
    clock: d.clock,
    logger,
    budgets,
    limits: { limits: { crm: { rate: 1, per: '1s' } } },
  })
  onTestFinished(() => app.close())
  const failure = app.define().then(
    () => null,
    (error: unknown) => error,
  )
  // More pauses than it makes in the seconds for which it asks.
  for (let i = 0; i < 100; i++) await d.clock.advance('100ms')
  const { limits } = await d.sluice.limits.list().then((list) => ({ limits: list.map(({ name }) => name) }))
  return { failure: await failure, warnings, limits }
}

const fails =
  (message: string, more: object = {}) =>
  async () => {
    throw Object.assign(new Error(message), more)
  }

test('one that answers gives no warning', async () => {
  expect(await defined(async () => undefined)).toEqual({ failure: null, warnings: [], limits: ['crm'] })
})

test.each<[string, object?]>([
  ['WRONGPASS invalid username-password pair'],
  ['NOAUTH Authentication required.'],
  ["NOPERM this user has no permissions to run the 'evalsha' command"],
  ["ERR unknown command 'EVALSHA'"],
  ['Unknown RESP type 83 "S"'],
  ['self-signed certificate', { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }],
  ['Authorization Violation', { name: 'AuthorizationError' }],
  ['jetstream is not enabled', { name: 'JetStreamNotEnabled' }],
])('one that refuses ends the start: %s', async (message, more = {}) => {
  const { failure, warnings, limits } = await defined(fails(message, more))
  expect(failure).toMatchObject({
    code: 'limiter.backend_down',
    message: expect.stringContaining(message.slice(0, 20)),
  })
  expect([warnings, limits]).toEqual([[], []])
})

test.each<[string, object?]>([
  ['connect ECONNREFUSED 127.0.0.1:6379', { code: 'ECONNREFUSED' }],
  ['getaddrinfo ENOTFOUND redis', { code: 'ENOTFOUND' }],
  ['LOADING Redis is loading the dataset in memory'],
  ['CLUSTERDOWN Hash slot not served'],
  ['ERR max number of clients reached'],
])('one that is away gives one warning: %s', async (message, more = {}) => {
  const { failure, warnings, limits } = await defined(fails(message, more))
  expect([failure, limits]).toEqual([null, ['crm']])
  expect(warnings).toEqual([[{ err: expect.any(SluiceError) }, expect.stringContaining(message)]])
  expect(warnings[0]?.[1]).toContain('requests to /limiter/v1 get 503 until it answers')
})

test('one that never answers is away after some seconds', async () => {
  const { failure, warnings } = await defined(() => new Promise(() => undefined))
  expect([failure, warnings]).toEqual([
    null,
    [[expect.anything(), expect.stringContaining('no answer within 3000 ms')]],
  ])
})
