import { describe, expect, test } from 'vitest'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { applyOverride } from '../../src/policy/limits/override.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'

const policy = (calibrate: unknown): Policy => ({ rate: 5, per: '1s', calibrate }) as Policy

describe('calibrate of a policy', () => {
  test.each([
    ['headers', { direction: 'down', reset: 'window', budget: null }],
    [{ from: 'headers' }, { direction: 'down', reset: 'window', budget: null }],
    [
      { from: 'headers', direction: 'both', reset: 'refill', budget: 'tokens' },
      { direction: 'both', reset: 'refill', budget: 'tokens' },
    ],
  ])('%j is understood, and stays under an override', (given, normalised) => {
    const made = normalisePolicy(policy(given), 'limit x')
    expect(made.calibrate).toEqual(normalised)
    expect(applyOverride(made, { rate: 9 }, 'limit x').calibrate).toEqual(normalised)
  })

  test('is absent where nothing is said', () => {
    expect('calibrate' in normalisePolicy({ rate: 5, per: '1s' }, 'limit x')).toBe(false)
  })

  test.each([
    ['body', "Expected 'headers'"],
    [7, "Expected 'headers'"],
    [null, "Expected 'headers'"],
    [{}, "Add from: 'headers'"],
    [{ from: 'body' }, "Expected 'headers'"],
    [{ from: 'headers', direction: 'up' }, "Expected 'down' or 'both'"],
    [{ from: 'headers', reset: 1 }, "Expected 'window' or 'refill'"],
    [{ from: 'headers', budget: '' }, "such as 'tokens'"],
    [{ from: 'headers', toString: 1 }, 'has no field toString'],
  ])('%j is refused, with what to write instead', (given, remedy) => {
    expect(() => normalisePolicy(policy(given), 'limit x')).toThrow(
      expect.objectContaining({ code: 'policy.invalid', message: expect.stringContaining(remedy) as string }),
    )
  })
})
