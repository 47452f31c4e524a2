import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { limit, type Policy } from '../../src/exports/index.ts'
import { charge, newBucket } from '../../src/policy/limits/bucket.ts'
import { decodeBucket, encodeBucket } from '../../src/policy/limits/bucket-codec.ts'
import { useOf } from '../../src/policy/limits/define.ts'
import { outsideUntil, refuseOvercommitted, reserveOf, reserves } from '../../src/policy/limits/guarantee.ts'
import { keptBack } from '../../src/policy/limits/headroom.ts'
import type { Guarantee, LimitPolicy } from '../../src/policy/limits/limit.ts'
import { applyOverride } from '../../src/policy/limits/override.ts'
import type { CommonLimit } from '../../src/policy/limits/policy.ts'
import { policyInWords } from '../../src/policy/limits/policy-words.ts'
import { EPOCH_US } from './histories.ts'

const outbound = limit('outbound', { rate: 100, per: '1s', concurrency: 10 })
const OWN = { rate: 20, per: '1s', concurrency: 5 } as const

function share(of: Partial<CommonLimit> | object, own: Policy = OWN): LimitPolicy & { of: Guarantee } {
  return useOf(limit('tenant', { ...own, of: of as CommonLimit })).policy as LimitPolicy & { of: Guarantee }
}

describe('the starts within a guarantee', () => {
  const histories = fc.record({
    rate: fc.integer({ min: 1, max: 10 }),
    burst: fc.integer({ min: 1, max: 6 }),
    gaps: fc.array(fc.integer({ min: 0, max: 400_000 }), { minLength: 1, maxLength: 60 }),
    weights: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 60, maxLength: 60 }),
  })

  test('are never more than the guarantee, and begin at the named microsecond, not one before', () => {
    fc.assert(
      fc.property(histories, ({ rate, burst, gaps, weights }) => {
        const policy = share({ limit: outbound, atLeast: { rate, per: '1s', burst } })
        const state = newBucket(policy, EPOCH_US)
        const assured: [atUs: number, units: number][] = []
        let nowUs = EPOCH_US
        for (const [i, gapUs] of gaps.entries()) {
          nowUs += gapUs
          const weight = Math.min(weights[i]!, burst)
          const untilUs = outsideUntil(policy.of, state, 0, nowUs, weight)
          if (untilUs === null) assured.push([nowUs, weight])
          else {
            expect(outsideUntil(policy.of, state, 0, untilUs - 1, weight)).toBe(untilUs)
            expect(outsideUntil(policy.of, state, 0, untilUs, weight)).toBeNull()
          }
          // One outside the guarantee borrows, and leaves it as it is.
          const before = state.guarantee && { ...state.guarantee }
          charge(policy, state, nowUs, weight)
          if (untilUs !== null) expect(state.guarantee).toEqual(before)
        }
        for (const [i, [fromUs]] of assured.entries()) {
          let units = 0
          for (const [atUs, weight] of assured.slice(i)) {
            units += weight
            expect(units).toBeLessThanOrEqual(burst + ((atUs - fromUs + 1) * rate) / 1e6)
          }
        }
        expect(decodeBucket(encodeBucket(state))).toEqual(state)
      }),
      { numRuns: 300 },
    )
  })

  test('are as many permits as it names', () => {
    const { of } = share({ limit: outbound, atLeast: { concurrency: 2 } })
    expect([0, 1, 2, 3].map((active) => outsideUntil(of, {}, active, EPOCH_US, 1))).toEqual([
      null,
      null,
      Infinity,
      Infinity,
    ])
  })
})

describe('the units that others leave in a common limit', () => {
  const common = useOf(limit('c', { rate: 100, per: '1s' })).policy

  test('are those that all guaranteed keys may start at one instant, at most half of the burst', () => {
    const of = (keys: number | undefined) =>
      share({ limit: limit('c', '100/s'), atLeast: '2/s', ...(keys !== undefined && { keys }) }, { rate: 5, per: '1s' })
    const kept = (keys: number | undefined): number =>
      reserveOf({ ...common, reserve: reserves([of(keys), null, common]).get('c') ?? 0 })
    expect([1, 10, 25, 40, undefined].map(kept)).toEqual([2, 20, 50, 50, 50])
    expect(keptBack({ ...common, reserve: 20 }, 100)).toBe(20)
  })

  test('are none where a unit that lies idle would be lost: permits, windows, a burst of one', () => {
    for (const policy of [
      { rate: 100, per: '1s', concurrency: 3 },
      { window: 'sliding', max: 100, per: '1s' },
      { rate: 100, per: '1s', burst: 1 },
      { every: '10ms' },
    ] as const)
      expect(reserveOf({ ...useOf(limit('c', policy)).policy, reserve: 20 })).toBe(0)
  })
})

describe('a guarantee is taken', () => {
  const common = (text: string) => limit('common', text)
  test.each<[string, CommonLimit, Policy]>([
    ['of a sliding window', { limit: common('100/s sliding'), atLeast: '5/s' }, OWN],
    ['of a spacing', { limit: common('every 10ms'), atLeast: '5/s' }, OWN],
    ['of a rate with a spacing', { limit: common('100/s, every 5ms'), atLeast: '5/s' }, OWN],
    ['by a sliding window', { limit: outbound, atLeast: '5/s' }, { window: 'sliding', max: 6, per: '1s' }],
    ['by a window of the calendar', { limit: outbound, atLeast: '5/s' }, { policy: '900/day fixed in UTC' }],
    ['by a spacing', { limit: outbound, atLeast: '5/s' }, { every: '200ms' }],
    ['by permits', { limit: outbound, atLeast: '5/s' }, { concurrency: 2 }],
    ['in intervals', { limit: outbound, atLeast: { every: '200ms' } }, OWN],
    ['in intervals, as a text', { limit: outbound, atLeast: 'every 200ms' }, OWN],
    ['with permits', { limit: outbound, atLeast: { every: '200ms', concurrency: 2 } }, OWN],
  ])('%s', (_name, of, own) => {
    const { rule } = share(of, own).of
    expect(rule && rule.rate / rule.periodUs).toBe(5 / 1e6)
  })

  test('and named in the words of its policy', () => {
    const words = policyInWords(share({ limit: outbound, atLeast: { rate: 5, per: '1s', concurrency: 2 } }))
    expect(words).toBe('20 per 1 s, burst 20, 5 at once, at least 5 per 1 s and 2 at once of outbound')
  })
})

describe('a guarantee is refused', () => {
  const refused = (of: unknown, own?: Policy): string => {
    try {
      share(of as object, own)
    } catch (error) {
      expect(error).toMatchObject({ code: 'policy.invalid' })
      return (error as Error).message
    }
    return 'taken'
  }
  const windowed = limit('w', { window: 'fixed', max: 100, per: '1s' })
  const least = { rate: 5, per: '1s' }
  const WINDOW = { window: 'sliding', max: 6, per: '1.1s' } as const

  test.each<[string, unknown, Policy | undefined, string]>([
    ['of null', null, undefined, 'of.limit is invalid: undefined'],
    ['without a limit', { atLeast: least }, undefined, 'of.limit is invalid: undefined'],
    ['of a name', { limit: 'outbound', atLeast: least }, undefined, "of.limit is invalid: 'outbound'"],
    ['of itself', { limit: limit('tenant', '100/s'), atLeast: least }, undefined, 'is the limit itself'],
    [
      'of a limit that shares another',
      { limit: limit('middle', { rate: 50, per: '1s', of: { limit: outbound, atLeast: '5/s' } }), atLeast: least },
      undefined,
      'limit middle has an of itself, outbound',
    ],
    ['without atLeast', { limit: outbound }, undefined, 'of.atLeast is missing'],
    ['of a misspelt option', { limit: outbound, atleast: least }, undefined, 'did you mean atLeast'],
    ['of a misspelt part', { limit: outbound, atLeast: { rat: 5, per: '1s' } }, undefined, 'did you mean rate'],
    ['of a window', { limit: outbound, atLeast: '5/s sliding' }, undefined, 'Expected a rate'],
    ['of a rate with a spacing', { limit: outbound, atLeast: '5/s, every 1s' }, undefined, 'Expected a rate'],
    ['of a fixed window', { limit: outbound, atLeast: '5/s fixed' }, undefined, 'Expected a rate'],
    ['above its own interval', { limit: outbound, atLeast: '5/s' }, { every: '250ms' }, 'more than its own rate'],
    ['above its own window', { limit: outbound, atLeast: '6/s' }, WINDOW, 'more than its own rate'],
    ['above the common interval', { limit: limit('e', 'every 1s'), atLeast: '2/s' }, undefined, 'that of limit e'],
    ['above the common window', { limit: limit('v', '4/s sliding'), atLeast: '4/s' }, undefined, 'its guard included'],
    ['of no permit', { limit: outbound, atLeast: 'paused' }, undefined, 'guarantees no permit'],
    ['of a number', { limit: outbound, atLeast: 5 }, undefined, 'policy is invalid: 5'],
    ['above its own rate', { limit: outbound, atLeast: '21/s' }, undefined, 'more than its own rate'],
    ['above the common rate', { limit: limit('c', '4/s'), atLeast: '5/s' }, undefined, 'more than that of limit c'],
    ['above the common burst', { limit: limit('c', '9/s burst 2'), atLeast: '5/s' }, undefined, 'burst is 2'],
    ['above its own permits', { limit: outbound, atLeast: { concurrency: 6 } }, undefined, 'its own concurrency'],
    ['of a rate in a fixed window', { limit: windowed, atLeast: least }, undefined, 'limit w has fixed windows'],
    ['of permits in a rate', { limit: limit('r', '9/s'), atLeast: { concurrency: 1 } }, undefined, 'no concurrency'],
    ['of a rate in permits', { limit: limit('p', '9 at once'), atLeast: least }, undefined, 'has none'],
    ['of a worker', { limit: outbound, atLeast: least }, { ...OWN, scope: 'worker' }, "Remove scope: 'worker'"],
    ['of no key', { limit: outbound, atLeast: least, keys: 0 }, undefined, 'whole number from 1 to 1000000'],
    ['of an unknown word', { limit: outbound, atLeast: least, overcommit: 'no' }, undefined, "'refuse' or 'scale'"],
  ])('%s', (_name, of, own, message) => {
    expect(refused(of, own)).toContain(message)
  })

  test('in an override, which keeps the guarantee that the definition has', () => {
    const policy = share({ limit: outbound, atLeast: least })
    expect(() => applyOverride(policy, { of: null } as never, 'limit tenant')).toThrow('cannot change of')
    expect(applyOverride(policy, { rate: 30 }, 'limit tenant').of).toEqual(policy.of)
  })

  test('if all add up to more than the common limit, unless they are to shrink', () => {
    const { policy } = useOf(outbound)
    const of = (atLeast: CommonLimit['atLeast'], keys: number, overcommit?: 'scale') =>
      share({ limit: outbound, atLeast, keys, ...(overcommit && { overcommit }) }).of
    const check =
      (...all: Guarantee[]) =>
      () =>
        refuseOvercommitted('limit x', 'outbound', policy, all)
    expect(check(of('5/s', 20))).not.toThrow()
    expect(check(of('5/s', 21))).toThrow('add up to more than its rate')
    expect(check(of('5/s', 11), of('9/s', 5))).not.toThrow()
    expect(check(of('5/s', 11), of('10/s', 5))).toThrow('add up to more than its rate')
    expect(check(of({ concurrency: 1 }, 11))).toThrow('add up to more than its concurrency')
    expect(check(of('5/s', 21, 'scale'))).not.toThrow()
  })
})
