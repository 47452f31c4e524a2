import { describe, expect, test } from 'vitest'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { applyOverride, applyFittingOverride, type PolicyChange } from '../../src/policy/limits/override.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'

function changed(policy: Policy, change: PolicyChange): object {
  return applyOverride(normalisePolicy(policy, 'limit a'), change, 'limit a')
}

describe('an override', () => {
  test.each<[Policy, PolicyChange, Policy]>([
    [{ rate: 10, per: '1m' }, { rate: 20 }, { rate: 20, per: '1m' }],
    [{ rate: 10, per: '1m', burst: 3 }, { rate: 20 }, { rate: 20, per: '1m', burst: 3 }],
    [{ rate: 10, per: '1m' }, { burst: 3 }, { rate: 10, per: '1m', burst: 3 }],
    [{ rate: 10, per: '1m', guard: '1s' }, { per: '2m' }, { rate: 10, per: '2m', guard: '1s' }],
    [{ rate: 10, per: '1m', guard: '1s' }, { guard: '3s' }, { rate: 10, per: '1m', guard: '3s' }],
    [{ rate: 1, per: 0.001, startEmpty: true }, { burst: 2 }, { rate: 1, per: 0.001, burst: 2, startEmpty: true }],
    [
      { window: 'sliding', max: 5, per: '1m', guard: '100ms' },
      { max: 7 },
      { window: 'sliding', max: 7, per: '1m', guard: '100ms' },
    ],
    [
      { window: 'fixed', max: 5, per: '1h', guard: '1s' },
      { per: '2h' },
      { window: 'fixed', max: 5, per: '2h', guard: '1s' },
    ],
    [
      { window: 'fixed', max: 5, per: 'P1M', timezone: 'Europe/Paris' },
      { max: 6 },
      { window: 'fixed', max: 6, per: 'P1M', timezone: 'Europe/Paris' },
    ],
    [
      { window: 'fixed', max: 5, per: '1d', timezone: 'Europe/Paris' },
      { per: '1h' },
      { window: 'fixed', max: 5, per: '1h', timezone: 'Europe/Paris' },
    ],
    [{ every: '1s', guard: '1ms' }, { every: '2s' }, { every: '2s', guard: '1ms' }],
    [
      { rate: 10, per: '1m', headroom: { units: 3, priority: 5 } },
      { rate: 20 },
      { rate: 20, per: '1m', headroom: { units: 3, priority: 5 } },
    ],
    [{ rate: 10, per: '1m', headroom: { units: 3, priority: 5 } }, { headroom: null }, { rate: 10, per: '1m' }],
    [{ every: '1s' }, { concurrency: 3 }, { every: '1s', concurrency: 3 }],
    [{ every: '1s', concurrency: 3 }, { concurrency: null }, { every: '1s' }],
    [{ concurrency: 3 }, { concurrency: 0 }, { concurrency: 0 }],
    [
      { concurrency: 3, version: 4, onMissingKey: 'shared', retries: 'free' },
      { onLimit: 'drop', maxWait: '5s' },
      { concurrency: 3, version: 4, onMissingKey: 'shared', retries: 'free', onLimit: 'drop', maxWait: '5s' },
    ],
    [{ concurrency: 3, maxWait: '5s' }, { maxWait: null }, { concurrency: 3 }],
  ])('of %j by %j means the policy %j', (policy, change, meant) => {
    expect(changed(policy, change)).toEqual(normalisePolicy(meant, 'limit a'))
  })

  test.each<[Policy, object]>([
    [{ rate: 10, per: '1m' }, {}],
    [{ rate: 10, per: '1m' }, { max: 4 }],
    [{ rate: 10, per: '1m' }, { rate: 0 }],
    [{ rate: 10, per: '1m' }, { rate: null }],
    [
      { rate: 10, per: '1m' },
      { window: 'sliding', max: 4 },
    ],
    [{ rate: 10, per: '1m' }, { version: 4 }],
    [{ every: '1s' }, { per: '1s' }],
    [{ concurrency: 2 }, { rate: 10, per: '1m' }],
    [{ concurrency: 2 }, { concurrency: null }],
    [{ concurrency: 2 }, { guard: '1s' }],
  ])('of %j by %j is refused', (policy, change) => {
    expect(() => changed(policy, change)).toThrow(expect.objectContaining({ code: 'policy.invalid' }) as Error)
  })

  test('that no longer fits its limit changes what still does, or nothing', () => {
    const window = normalisePolicy({ window: 'sliding', max: 5, per: '1m' }, 'limit a')
    expect(applyFittingOverride(window, { rate: 5, concurrency: 2 })).toEqual({ ...window, concurrency: 2 })
    expect(applyFittingOverride(window, { rate: 5 })).toEqual(window)
    const permits = normalisePolicy({ concurrency: 2 }, 'limit a')
    expect(applyFittingOverride(permits, { concurrency: null })).toEqual(permits)
  })
})
