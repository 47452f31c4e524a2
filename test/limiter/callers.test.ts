// A refusal tells how many callers wait for the same bucket, on every backend that several processes share.
import { describe, expect, it, onTestFinished } from 'vitest'
import { limit } from '../../src/exports/limiter.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { LimiterLimits } from '../../src/limiter/client/uses.ts'
import type { UnitRequest } from '../../src/limiter/contract/limiter.ts'
import { UNDEFINED } from '../../src/limiter/ledger/changes.ts'
import { renew } from '../../src/limiter/ledger/corrections.ts'
import type { Ledger } from '../../src/limiter/ledger/ledger.ts'
import { MergedCorrections } from '../../src/limiter/ledger/merged-corrections.ts'
import { backendLoader } from '../../src/limiter/open.ts'
import { ValueBackend } from '../../src/limiter/values/backend.ts'
import { systemClock } from '../../src/base/clock.ts'
import { service } from '../services.ts'

const REDIS = await service('redis', 'callers on Redis')
const NATS = await service('nats', 'callers on NATS')
const crm = limit('crm', { rate: 1, per: '1h', burst: 1 })
const slots = limit('slots', { concurrency: 1 })

/** Values in this process, as if others had them too. */
function values(seen = { updates: 0 }): ValueBackend {
  const kept = new Map<string, string>()
  return new ValueBackend({
    update: async (keys, decide) => {
      seen.updates++
      const written = decide(
        keys.map((key) => kept.get(key) ?? null),
        Math.round(systemClock.monotonicUs()),
      )
      for (const [i, key] of keys.entries()) if (written[i]?.text) kept.set(key, written[i].text)
    },
  })
}

let spaces = 0
const namespace = (): string => `test-${process.pid}-${Date.now().toString(36)}-${++spaces}`
const BACKENDS = [
  { name: 'values', open: async () => values() },
  ...[REDIS, NATS].flatMap((url) =>
    url === null
      ? []
      : [{ name: url.split(':')[0] ?? '', open: () => backendLoader(url, namespace(), systemClock).load() }],
  ),
]

describe.each(BACKENDS)('a refusal by $name', ({ open }) => {
  it.each([crm, slots])('of $name counts each caller once, and only those that name themselves', async ({ name }) => {
    const backend = await open()
    onTestFinished(() => backend.close())
    const limits = new LimiterLimits()
    limits.add([crm, slots], 'a test')
    await backend.define(limits.definitions())
    const ask = async (caller?: string) => {
      const named: Pick<UnitRequest, 'caller'> = caller === undefined ? {} : { caller }
      const uses = [{ limit: name, key: '', weight: 1 }]
      const permit = `p${Math.random()}`
      const [answer] = await backend.acquire([{ uses, priority: 0, line: 0, permit, leaseUs: 30e6, ...named }])
      return answer?.kind === 'denied' ? (answer.callers ?? 0) : answer?.kind
    }
    expect(await ask('a')).toBe('granted')
    expect(await ask('a')).toBe(1)
    expect(await ask('a')).toBe(1)
    expect(await ask('b')).toBe(2)
    expect(await ask()).toBe(0)
    expect(await ask('c')).toBe(3)
    // They hold no permit.
    expect((await backend.inspect({ limit: name, key: '' }))?.active).toBe(name === 'slots' ? 1 : 0)
  })
})

it('corrections of one bucket that come together are one update of its value', async () => {
  const seen = { updates: 0 }
  const backend = values(seen)
  const tokens = limit('tokens', { window: 'sliding', max: 1000, per: '1h' })
  const limits = new LimiterLimits()
  limits.add([tokens], 'a test')
  await backend.define(limits.definitions())
  const [one, two] = ['one', 'two'].map((key) => ({ limit: 'tokens', key }))
  const before = seen.updates
  const charges = Array.from({ length: 300 }, (_, i) => backend.charge(i % 3 === 0 ? two! : one!, 1, 0))
  await Promise.all(charges)
  expect(seen.updates - before).toBe(2)
  expect((await backend.inspect(one!))?.available).toBe(800)
  expect((await backend.inspect(two!))?.available).toBe(900)
})

it('a correction that never ends holds up those of its bucket for a second at most', async () => {
  const clock = createManualClock()
  let steps = 0
  const step = async <T>(_: unknown, work: (ledger: Ledger) => T): Promise<T> =>
    ++steps === 1 ? new Promise(() => undefined) : work({ nowUs: 0, bucket: () => null, timeline: () => UNDEFINED })
  const corrections = new MergedCorrections(step, clock)
  const name = { limit: 'tokens', key: '' }
  void corrections.correct(name, renew)
  await clock.advance(0)
  const behind = Promise.allSettled([corrections.correct(name, renew), corrections.correct(name, renew)])
  await clock.advance('1s')
  const undefinedLimit = { status: 'rejected', reason: { code: 'limit.unknown' } }
  expect(await behind).toMatchObject([undefinedLimit, undefinedLimit])
  expect(steps).toBe(2)
})
