import { describe, expect, test } from 'vitest'
import * as fc from '../properties.ts'
import { inlineUse, limit, useOf } from '../../src/policy/limits/define.ts'
import { forecast } from '../../src/policy/forecast/what-if.ts'
import { adopt, charge, deniedUntil, newBucket } from '../../src/policy/limits/bucket.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { applyOverride, type PolicyChange } from '../../src/policy/limits/override.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import { EPOCH_US, SECOND } from './histories.ts'

const MINUTE: Policy = { window: 'sliding', max: 15, per: '1m' }
const read = (policy: Policy): LimitPolicy => normalisePolicy(policy, 'limit crm')

describe('the default guard of a sliding window', () => {
  test.each<[Policy, number, number]>([
    [MINUTE, 60_020_000, 20_000],
    [{ window: 'sliding', max: 5, per: '1s' }, 1_020_000, 20_000],
    [{ window: 'sliding', max: 5, per: '100ms' }, 102_000, 2000],
    [{ window: 'sliding', max: 5, per: 0.099 }, 100, 1],
  ])('of %j makes it %d µs long', (policy, periodUs, guardUs) => {
    expect(read(policy)).toMatchObject({ rule: { periodUs }, guardUs, defaultGuard: true })
  })

  test.each([0, '0ms', 'PT0S'] as const)('ends with a guard of %j', (guard) => {
    const found = read({ ...MINUTE, guard })
    expect(found.rule).toEqual({ kind: 'sliding', max: 15, periodUs: 60_000_000 })
    expect(found).not.toHaveProperty('guardUs')
    expect(found).not.toHaveProperty('defaultGuard')
  })

  test('is not of any other rule, nor of the spacing beside the window', () => {
    expect(read({ rate: 5, per: '1s', every: '10ms' })).toMatchObject({
      rule: { periodUs: SECOND },
      spacing: { everyUs: 10_000 },
    })
    expect(read({ window: 'fixed', max: 5, per: '1s' })).toMatchObject({ rule: { guardUs: 0 } })
    expect(read({ every: '1s' })).toMatchObject({ rule: { everyUs: SECOND } })
    expect(read({ ...MINUTE, every: '1s' })).toMatchObject({
      rule: { periodUs: 60_020_000 },
      spacing: { everyUs: SECOND },
    })
  })

  test('holds for named and inline limits, and in a forecast', () => {
    expect(useOf(limit('crm', MINUTE)).policy).toEqual(read(MINUTE))
    expect(inlineUse({ ...MINUTE, by: () => 'a' }, 'task').policy).toEqual(read(MINUTE))
    expect(forecast(MINUTE, { backlog: 16 }).drainMs).toBe(60_020)
    expect(forecast({ ...MINUTE, guard: 0 }, { backlog: 16 }).drainMs).toBe(60_000)
  })

  test.each<[Policy, PolicyChange, Policy]>([
    [MINUTE, { max: 30 }, { ...MINUTE, max: 30 }],
    [MINUTE, { per: '500ms' }, { window: 'sliding', max: 15, per: '500ms' }],
    [MINUTE, { guard: 0 }, { ...MINUTE, guard: 0 }],
    [{ ...MINUTE, guard: 0 }, { per: '500ms' }, { window: 'sliding', max: 15, per: '500ms', guard: 0 }],
    [{ ...MINUTE, guard: '20ms' }, { per: '500ms' }, { window: 'sliding', max: 15, per: '500ms', guard: '20ms' }],
    [{ ...MINUTE, every: '1s' }, { max: 9 }, { ...MINUTE, max: 9, every: '1s' }],
    [{ ...MINUTE, every: '1s' }, { every: '2s' }, { ...MINUTE, every: '2s' }],
  ])('of %j, changed by %j, is that of %j', (policy, change, meant) => {
    expect(applyOverride(read(policy), change, 'limit crm')).toEqual(read(meant))
  })

  test('is not given to a stored definition of a version that had none', () => {
    const stored = read({ ...MINUTE, guard: 0 })
    expect(applyOverride(stored, { max: 30 }, 'limit crm').rule).toMatchObject({ periodUs: 60_000_000 })
  })
})

describe('arrivals that are up to 20 ms late', () => {
  test('are never more than max in any period, and at least 98 % of max in each period and guard', () => {
    const periods = fc.integer({ min: 1000, max: 60_000 })
    const lateness = fc.array(fc.integer({ min: 0, max: 20_000 }), { minLength: 1, maxLength: 50 })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), periods, lateness, (max, per, late) => {
        const policy = read({ window: 'sliding', max, per })
        const state = newBucket(policy, EPOCH_US)
        const starts: number[] = []
        for (let atUs = EPOCH_US; starts.length < 10 * max;) {
          atUs = deniedUntil(policy, state, 0, atUs, 1) ?? atUs
          charge(policy, state, atUs, 1)
          starts.push(atUs)
        }
        const arrivals = starts.map((atUs, i) => atUs + (late[i % late.length] ?? 0)).sort((a, b) => a - b)
        for (const [i, fromUs] of arrivals.entries())
          expect(arrivals[i + max] ?? Infinity).toBeGreaterThanOrEqual(fromUs + per * 1000)
        expect((starts.at(-1) ?? 0) - EPOCH_US).toBe(9 * (per * 1000 + (policy.guardUs ?? 0)))
        expect((9 * per * 1000) / ((starts.at(-1) ?? 0) - EPOCH_US)).toBeGreaterThan(0.98)
      }),
    )
  })
})

describe('processes of versions with and without a default guard', () => {
  test.each([
    ['an exact log', 15, 0],
    ['a ring of sub-slots', 3000, 1],
  ])('that define a limit in turns never grant more than max in any period: %s', (_, max, gapUs) => {
    const versions = [
      read({ window: 'sliding', max, per: '1s', guard: 0 }),
      read({ window: 'sliding', max, per: '1s' }),
    ]
    let state = newBucket(versions[0] as LimitPolicy, EPOCH_US)
    const starts: number[] = []
    let policy = versions[0] as LimitPolicy
    for (let atUs = EPOCH_US, turn = 0; turn < 200; turn++, atUs += 37_000) {
      const next = versions[turn % 2] as LimitPolicy
      state = adopt(policy, next, state, atUs)
      policy = next
      for (let us = atUs; deniedUntil(policy, state, 0, us, 1) === null && us < atUs + 37_000; us += gapUs) {
        charge(policy, state, us, 1)
        starts.push(us)
      }
    }
    expect(starts.length).toBeGreaterThan(5 * max)
    for (const [i, fromUs] of starts.entries())
      expect(starts[i + max] ?? Infinity).toBeGreaterThanOrEqual(fromUs + SECOND)
  })
})
