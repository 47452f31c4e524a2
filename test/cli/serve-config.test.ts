// The configuration of `sluice serve`: an option that the server would ignore in silence is refused.
import { describe, expect, test } from 'vitest'
import { readServeConfig } from '../../src/cli/serve/config.ts'
import { createAccess } from '../../src/http/access.ts'

const TOKEN = { token: 'x'.repeat(20), scopes: ['admin'], tenant: '*' }
const limits = { c: { rate: 1, per: '1s' } }
const read = (json: unknown): void => void createAccess(readServeConfig(json).tokens, () => 0)

describe('a misspelt member is refused at every depth, and the message says which was meant', () => {
  test.each<[object, string]>([
    [{ limts: {} }, 'limits'],
    [{ tokens: [{ ...TOKEN, queue: ['q'] }] }, 'queues'],
    [{ requests: { rate: 1, pre: '1s' } }, 'per'],
    [{ limits: { c: { ...limits.c, shard: true } } }, 'shared'],
    [{ limits: { c: { ...limits.c, onMissing: 'fail' } } }, 'onMissingKey'],
    [{ limits: { c: { ...limits.c, calibrate: { dirction: 'x' } } } }, 'direction'],
    [{ limits, types: { a: { limit: [] } } }, 'limits'],
    [{ limits, types: { a: { limits: [{ limit: 'c', wieght: 1 }] } } }, 'weight'],
    [{ types: { a: { retry: { attempt: 3 } } } }, 'attempts'],
    [{ queues: { a: { limt: [] } } }, 'limits'],
    [{ queues: { a: { stripe: 2 } } }, 'stripes'],
  ])('%j', (json, meant) => {
    expect(() => read(json)).toThrow(`did you mean ${meant}?`)
  })
})

test.each<[unknown]>([
  [JSON.parse('{"limits": {"__proto__": {"rate": 1, "per": "1s"}}}')],
  [{ queues: { 'No Queue': {} } }],
  [{ queues: { a: { stripes: 0 } } }],
  [{ queues: { a: { stripes: 65 } } }],
  [{ queues: { a: { stripes: '2' } } }],
  [{ stripes: 2 }],
  [{ requests: { concurrency: 1 } }],
  [{ requests: { rate: 1, per: '1s', concurrency: 1 } }],
])('%j would be ignored, and is refused', (json) => {
  expect(() => read(json)).toThrow(/invalid|cannot be kept|leave concurrency out/)
})

test('stripes of a queue reach the engine', () => {
  expect(readServeConfig({ queues: { mail: { stripes: 4 }, other: {} } }).queues).toMatchObject({
    mail: { stripes: 4 },
    other: { concurrency: 0 },
  })
})
