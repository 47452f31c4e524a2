import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { limit, type Policy } from '../../src/exports/index.ts'
import { adopt, charge, deniedUntil, newBucket, penalize } from '../../src/policy/limits/bucket.ts'
import { decodeBucket, encodeBucket } from '../../src/policy/limits/bucket-codec.ts'
import { useOf } from '../../src/policy/limits/define.ts'
import { applyOverride } from '../../src/policy/limits/override.ts'
import { chargeShadow, enforced, shadowOf } from '../../src/policy/limits/shadow.ts'
import { EPOCH_US, policyOf } from './histories.ts'
import { rules } from './shadow-rules.ts'

const policyIn = (policy: Policy) => shadowOf(useOf(limit('s', policy)).policy)

describe('a limit in shadow mode', () => {
  const histories = fc.record({
    rule: rules,
    gaps: fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 900_000 })), { minLength: 1, maxLength: 40 }),
  })

  test('says of each start by how much a queue before the enforced limit would have delayed it', () => {
    fc.assert(
      fc.property(histories, ({ rule, gaps }) => {
        const real = policyOf(rule)
        const shadow = shadowOf({ ...real, mode: 'shadow' })
        let state = newBucket(shadow, EPOCH_US)
        const queue = newBucket(real, EPOCH_US)
        let [nowUs, lastUs] = [EPOCH_US, EPOCH_US]
        for (const gapUs of gaps) {
          nowUs += gapUs
          const fromUs = Math.max(nowUs, lastUs)
          lastUs = deniedUntil(real, queue, 0, fromUs, 1) ?? fromUs
          charge(real, queue, lastUs, 1)
          expect(deniedUntil(shadow, state, 0, nowUs, 1)).toBeNull()
          const told = chargeShadow(shadow, state, 0, nowUs, 1)
          expect(told?.delayUs ?? 0).toBe(lastUs - nowUs)
          state = decodeBucket(encodeBucket(state))
        }
        const { shadow: tally, ...rest } = state
        expect(rest).toEqual(queue)
        expect(tally?.worstUs ?? 0).toBeGreaterThanOrEqual(lastUs - nowUs)
      }),
      { numRuns: 300 },
    )
  })

  test('keeps its bound from the instant on at which it is enforced', () => {
    fc.assert(
      fc.property(histories, ({ rule, gaps }) => {
        const real = policyOf(rule)
        const shadow = shadowOf({ ...real, mode: 'shadow' })
        const state = newBucket(shadow, EPOCH_US)
        let nowUs = EPOCH_US
        for (const gapUs of gaps) chargeShadow(shadow, state, 0, (nowUs += gapUs), 1)
        const after = adopt(shadow, real, state, nowUs)
        expect(after.shadow).toBeUndefined()
        expect(after.atUs).toBe(nowUs)
        // As used up as after its last start, and the queue that no job waited in is gone.
        const untilUs = deniedUntil(real, after, 0, nowUs, 1) ?? nowUs
        const periodUs = rule.kind === 'spacing' ? rule.everyUs : rule.kind === 'fixed' ? 2e7 : rule.periodUs
        expect(untilUs - nowUs).toBeLessThanOrEqual(periodUs)
      }),
      { numRuns: 300 },
    )
  })

  test('counts what it would have ended, without a charge, and does not say when a permit had returned', () => {
    const drops = policyIn({ rate: 1, per: '1s', onLimit: 'drop', mode: 'shadow' })
    const state = newBucket(drops, EPOCH_US)
    expect(drops).toMatchObject({ onLimit: 'wait', maxWaitUs: null })
    expect([1, 2, 3].map(() => chargeShadow(drops, state, 0, EPOCH_US, 1))).toEqual([
      null,
      { delayUs: 1e6, drops: true },
      { delayUs: 1e6, drops: true },
    ])
    expect(state.shadow).toEqual({ delayed: 0, dropped: 2, totalUs: 0, worstUs: 0 })
    const late = policyIn({ rate: 1, per: '1s', maxWait: '1s', mode: 'shadow' })
    const waits = newBucket(late, EPOCH_US)
    expect([1, 2, 3].map(() => chargeShadow(late, waits, 0, EPOCH_US, 1)?.drops)).toEqual([undefined, false, true])
    const permits = policyIn({ concurrency: 2, mode: 'shadow' })
    const held = newBucket(permits, EPOCH_US)
    expect([0, 1, 2].map((active) => chargeShadow(permits, held, active, EPOCH_US, 1))).toEqual([
      null,
      null,
      { delayUs: null, drops: false },
    ])
  })

  test('stays closed while the other side has refused it, however far its queue has grown', () => {
    const policy = policyIn({ rate: 1, per: '1s', mode: 'shadow' })
    const state = newBucket(policy, EPOCH_US)
    for (let i = 0; i < 100; i++) chargeShadow(policy, state, 0, EPOCH_US, 1)
    penalize(policy, state, EPOCH_US + 5e6, EPOCH_US)
    expect(deniedUntil(policy, state, 0, EPOCH_US, 1)).toBe(EPOCH_US + 5e6)
    expect(deniedUntil(policy, state, 0, EPOCH_US + 5e6, 1)).toBeNull()
    expect(adopt(policy, enforced(policy), state, EPOCH_US).closedUntilUs).toBe(EPOCH_US + 5e6)
  })

  test('is entered and left by an override; a misspelt mode is refused', () => {
    const { policy } = useOf(limit('s', '1/s, 3 at once'))
    const shadow = applyOverride(policy, { mode: 'shadow' }, 'limit s')
    expect(shadow).toEqual({ ...policy, mode: 'shadow' })
    expect(applyOverride(shadow, { mode: 'enforce' }, 'limit s')).toEqual(policy)
    for (const mode of ['shaddow', 'Shadow', true, null, 1])
      expect(() => limit('s', { rate: 1, per: '1s', mode } as never)).toThrow(/mode is invalid.*'enforce' or 'shadow'/)
  })
})
