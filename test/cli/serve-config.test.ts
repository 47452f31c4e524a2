// The configuration of `sluice serve`: an option that the server would ignore in silence is refused.
import { describe, expect, test } from 'vitest'
import { readServeConfig } from '../../src/cli/serve/config.ts'
import { Sluice } from '../../src/exports/index.ts'
import { createAccess } from '../../src/http/access.ts'
import { useOf } from '../../src/policy/limits/define.ts'

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
  [{ queues: { a: { stripes: 1.5 } } }],
  [{ queues: { a: { stripes: '2' } } }],
  [{ queues: { a: { stripes: null } } }],
  [{ stripes: 2 }],
  [{ requests: { concurrency: 1 } }],
  [{ requests: { rate: 1, per: '1s', concurrency: 1 } }],
])('%j would be ignored, and is refused', (json) => {
  expect(() => read(json)).toThrow(/invalid|cannot be kept|leave concurrency out/)
})

test('a list of tokens without one is refused, since it would leave the server open', () => {
  expect(() => read({ tokens: [] })).toThrow('tokens: Invalid input: expected at least one token')
  expect(() => read({})).not.toThrow()
})

test.each([[[]], [null], ['x']])('%j is refused as a whole, under no name', (json) => {
  expect(() => read(json)).toThrow('The configuration is invalid: Invalid input: expected object')
})

test('a policy may be text, alone or beside the key and the owner', () => {
  const { limits, requests, served } = readServeConfig({
    requests: '100/s',
    limits: { crm: '15/min burst 5', mail: { policy: '5 at once', by: 'tenant', shared: true } },
    types: { sync: { limits: [{ limit: 'crm', weight: 5 }, { limit: 'mail' }] } },
  })
  expect(requests).toBe('100/s')
  expect(limits.map(({ name }) => name)).toEqual(['crm', 'mail'])
  expect(served.limits).toEqual({
    crm: { policy: '15/min burst 5' },
    mail: { policy: '5 at once', by: 'tenant', shared: true },
  })
  for (const json of [{ requests: '100/x' }, { limits: { crm: '100/x' } }, { limits: { crm: { policy: '100/x' } } }])
    expect(() => read(json)).toThrow('at character 5')
  expect(() => read({ requests: '5 at once' })).toThrow('it has concurrency')
})

test('a guaranteed share names its common limit, whichever comes first', () => {
  const of = { limit: 'outbound', atLeast: '5/s', keys: 10 }
  const { limits, tasks } = readServeConfig({
    limits: { bulk: { rate: 20, per: '1s', by: 'tenantId', of }, outbound: { policy: '100/s', shared: true } },
    types: { sync: { limits: [{ limit: 'bulk' }] } },
  })
  expect(limits.map((each) => useOf(each).policy.of?.limit)).toEqual(['outbound', undefined])
  const engine = new Sluice({ store: 'sqlite::memory:', tasks, limits })
  expect(engine).toBeInstanceOf(Sluice)
})

test('stripes of a queue reach the engine', () => {
  expect(readServeConfig({ queues: { mail: { stripes: 4 }, other: {} } }).queues).toMatchObject({
    mail: { stripes: 4 },
    other: { concurrency: 0 },
  })
})
