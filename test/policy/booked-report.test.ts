// A booked start that is given back returns what it took of a budget that an API has reported.
import { expect, it } from 'vitest'
import type { UnitRequest } from '../../src/limiter/contract/limiter.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { limit, useOf } from '../../src/policy/limits/define.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'

const CASES: readonly (readonly [string, Policy])[] = [
  ['a rate', { rate: 100, per: '1s', burst: 100 }],
  ['a spacing', { every: '1ms' }],
  ['a sliding window', { window: 'sliding', max: 100, per: '1s', guard: 0 }],
]

it.each(CASES)('of %s', async (_, policy) => {
  const clock = createManualClock()
  const backend = new MemoryBackend(clock)
  await backend.define([{ name: 'crm', policy: useOf(limit('crm', policy)).policy, version: 0 }])
  let n = 0
  const request = (): UnitRequest => ({
    uses: [{ limit: 'crm', key: '', weight: 1 }],
    priority: 0,
    line: ++n,
    permit: `p${n}`,
    leaseUs: 30_000_000,
  })
  const bucket = { limit: 'crm', key: '' }
  await backend.calibrate(bucket, { remaining: 3, resetInUs: 60_000_000, direction: 'down', reset: 'window' })
  await clock.advance(10)
  for (let i = 0; i < 3; i++) {
    const answer = await backend.reserve(request(), 1_000_000)
    if (answer.kind === 'booked') expect(await backend.cancel(answer.id)).toBe(true)
    await clock.advance(10)
  }
  // All three are left.
  const kinds: string[] = []
  for (let i = 0; i < 4; i++) {
    const [answer] = await backend.acquire([request()])
    kinds.push(answer!.kind)
    await clock.advance(10)
  }
  expect(kinds).toEqual(['granted', 'granted', 'granted', 'denied'])
})
