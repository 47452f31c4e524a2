// Booked starts that are given back, across overrides: the bucket gains no more than if they had not been booked.
import { expect, it } from 'vitest'
import type { LimitBackend, UnitRequest } from '../../src/limiter/contract/limiter.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { limit, useOf } from '../../src/policy/limits/define.ts'
import type { PolicyChange } from '../../src/policy/limits/override.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import * as fc from '../properties.ts'

const LIMIT = 'crm'
/** A rate that is carried through changes rounds up, by so much in all, in µs. */
const ROUNDED_US = 30
const HOUR_US = 3_600_000_000

type Step =
  | { readonly kind: 'book' | 'acquire'; readonly weight: number }
  | { readonly kind: 'cancel'; readonly nth: number }
  | { readonly kind: 'override'; readonly change: PolicyChange | null; readonly forMs: number | null }
  | { readonly kind: 'pass' | 'close'; readonly ms: number }

const small = fc.integer({ min: 1, max: 5 })
const rateChange = fc.record({ rate: small, per: fc.constantFrom(200, 1000, 5000), burst: small })
const windowChange = fc.record({ max: small })
const everyChange = fc.record({ every: fc.constantFrom(50, 250, 1000, 5000) })

const CASES: readonly (readonly [string, Policy, fc.Arbitrary<PolicyChange>])[] = [
  [
    'a rate of one unit',
    { rate: 4, per: '1s', burst: 1 },
    fc.record({ rate: small, per: fc.constantFrom(200, 1000, 5000) }),
  ],
  ['a rate with a burst', { rate: 4, per: '1s', burst: 3 }, rateChange],
  ['a spacing', { every: '250ms' }, everyChange],
  ['a spacing beside a window', { window: 'sliding', max: 3, per: '1s', guard: 0, every: '250ms' }, everyChange],
  ['a sliding window', { window: 'sliding', max: 3, per: '1s', guard: 0 }, windowChange],
  ['a fixed window', { window: 'fixed', max: 3, per: '1s' }, windowChange],
]

it.each(CASES)('give back no more than they took of %s', async (_, policy, changes) => {
  const override = fc.record({
    kind: fc.constant('override' as const),
    change: fc.option<PolicyChange>(changes),
    forMs: fc.option(fc.integer({ min: 1, max: 2000 })),
  })
  const step = fc.oneof<fc.MaybeWeightedArbitrary<Step>[]>(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('book'), weight: fc.integer({ min: 1, max: 2 }) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('acquire'), weight: fc.integer({ min: 1, max: 2 }) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('cancel'), nth: fc.nat(5) }) },
    { weight: 2, arbitrary: override },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('close'), ms: fc.integer({ min: 1, max: 400 }) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('pass'), ms: fc.nat(700) }) },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 25 }), async (history) => {
      // A bucket of one unit bears no more: what it owes besides is paid while starts are booked.
      const most = policy.rate !== undefined && policy.burst === 1 ? 1 : 2
      const { booked, plain } = await nextStarts(policy, history, most)
      const early = booked.some((us, i) => us < (plain[i] ?? 0) - ROUNDED_US)
      expect({ booked, plain, early }).toEqual({ booked, plain, early: false })
    }),
    { numRuns: 500 },
  )
})

/** The next five starts after a history, in µs: with its bookings, all given back at last, and without them. */
async function nextStarts(policy: Policy, history: readonly Step[], most: number) {
  const clock = createManualClock()
  const [withThem, without] = [new MemoryBackend(clock), new MemoryBackend(clock)]
  const both: readonly LimitBackend[] = [withThem, without]
  const definition = { name: LIMIT, policy: useOf(limit(LIMIT, policy)).policy, version: 0 }
  for (const backend of both) await backend.define([definition])
  let n = 0
  const request = (weight = 1): UnitRequest => ({
    uses: [{ limit: LIMIT, key: '', weight }],
    priority: 0,
    line: ++n,
    permit: `p${n}`,
    leaseUs: 30_000_000,
  })
  let ids: string[] = []
  for (const each of history) {
    if (each.kind === 'pass') await clock.advance(each.ms)
    // Units that return after a penalty refill a burst, booked or not.
    if (each.kind === 'close' && policy.burst !== 3)
      for (const backend of both) await backend.penalize({ limit: LIMIT, key: '' }, each.ms * 1000)
    if (each.kind === 'book') {
      const answer = await withThem.reserve(request(Math.min(most, each.weight)), HOUR_US)
      if (answer.kind === 'booked') ids.push(answer.id)
    }
    if (each.kind === 'acquire') {
      const [answer] = await withThem.acquire([request(Math.min(most, each.weight))])
      if (answer?.kind === 'granted')
        expect(await without.acquire([request(Math.min(most, each.weight))])).toMatchObject([{ kind: 'granted' }])
    }
    if (each.kind === 'override')
      for (const backend of both)
        await backend.change({
          kind: 'override',
          limit: LIMIT,
          key: null,
          change: each.change,
          forUs: each.forMs === null ? null : each.forMs * 1000,
          by: null,
          reason: null,
        })
    const id = each.kind === 'cancel' ? ids[each.nth % Math.max(1, ids.length)] : undefined
    if (id !== undefined) {
      await withThem.cancel(id)
      ids = ids.filter((known) => known !== id)
    }
  }
  for (const id of ids.reverse()) await withThem.cancel(id)
  const next = async (backend: LimitBackend): Promise<number[]> => {
    const starts: number[] = []
    for (let i = 0; i < 5; i++) {
      const answer = await backend.reserve(request(), 24 * HOUR_US)
      if (answer.kind === 'booked') starts.push(answer.startAfterUs)
      else if (answer.kind === 'denied') starts.push(answer.retryAfterUs ?? Infinity)
    }
    return starts
  }
  return { booked: await next(withThem), plain: await next(without) }
}
