import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { seededRandom } from '../../src/base/random.ts'
import { retryDelayUs, retryPolicy, type RetryOptions } from '../../src/jobs/retry-policy.ts'

const read = (options: unknown) => retryPolicy(options as RetryOptions, 'retry of task t')
const SECOND_US = 1_000_000
const random = (next: number): { next: () => number } => ({ next: () => next })
const delaysUs = (options: RetryOptions, count: number): number[] =>
  Array.from({ length: count }, (_, index) => retryDelayUs(read({ jitter: false, ...options }), index + 1, random(0)))

describe('retryPolicy', () => {
  test('fills in three attempts, exponential from 1 s by 2 up to 5 min, with jitter', () => {
    const defaults = {
      attempts: 3,
      backoff: 'exponential',
      initialUs: SECOND_US,
      maxUs: 300 * SECOND_US,
      factor: 2,
      jitter: true,
    }
    expect(read(undefined)).toEqual(defaults)
    expect(read({})).toEqual(defaults)
    expect(read({ attempts: undefined, backoff: undefined, initial: undefined, max: undefined })).toEqual(defaults)
  })

  test('takes what is given', () => {
    expect(read({ attempts: 1, backoff: 'linear', initial: '2s', max: 'PT1M', factor: 1.5, jitter: false })).toEqual({
      attempts: 1,
      backoff: 'linear',
      initialUs: 2 * SECOND_US,
      maxUs: 60 * SECOND_US,
      factor: 1.5,
      jitter: false,
    })
  })

  test('raises the default maximum to an initial delay that is longer', () => {
    expect(read({ initial: '10m' }).maxUs).toBe(600 * SECOND_US)
  })

  test.each([
    [{ attempts: 0 }, 'attempts is invalid: 0'],
    [{ attempts: -1 }, 'attempts is invalid: -1'],
    [{ attempts: 1.5 }, 'attempts is invalid: 1.5'],
    [{ attempts: Number.NaN }, 'attempts is invalid: NaN'],
    [{ attempts: Infinity }, 'attempts is invalid: Infinity'],
    [{ attempts: 10_001 }, 'attempts is invalid: 10001'],
    [{ attempts: '3' }, 'attempts is invalid: "3"'],
    [{ backoff: 'cubic' }, 'backoff is invalid: "cubic"'],
    [{ factor: 0.9 }, 'factor is invalid: 0.9'],
    [{ factor: Number.NaN }, 'factor is invalid: NaN'],
    [{ factor: Infinity }, 'factor is invalid: Infinity'],
    [{ jitter: 0.5 }, 'jitter is invalid: 0.5'],
    [{ initial: '2m', max: '1m' }, 'max is shorter than initial'],
    [{ atempts: 3 }, '"atempts"'],
    [3, 'invalid: 3. Expected an object of attempts'],
    [null, 'invalid: null. Expected an object of attempts'],
    [[], 'Expected an object'],
  ])('refuses %j', (options, why) => {
    expect(() => read(options)).toThrow(
      expect.objectContaining({ code: 'retry.invalid', message: expect.stringContaining(why) as string }),
    )
  })

  test.each([{ initial: '1x' }, { max: -1 }])('refuses the duration in %j and names it', (options) => {
    const name = Object.keys(options)[0] ?? ''
    expect(() => read(options)).toThrow(
      expect.objectContaining({
        code: 'duration.invalid',
        message: expect.stringContaining(`retry of task t: ${name}`) as string,
      }),
    )
  })
})

describe('retryDelayUs', () => {
  test('doubles up to the maximum', () => {
    expect(delaysUs({ max: '5s' }, 5)).toEqual([1, 2, 4, 5, 5].map((seconds) => seconds * SECOND_US))
  })

  test('grows by the factor that is given', () => {
    expect(delaysUs({ factor: 3 }, 4)).toEqual([1, 3, 9, 27].map((seconds) => seconds * SECOND_US))
  })

  test('is the same each time, grows evenly, or is nothing, as back-off says', () => {
    expect(delaysUs({ backoff: 'fixed' }, 3)).toEqual([SECOND_US, SECOND_US, SECOND_US])
    expect(delaysUs({ backoff: 'linear' }, 3)).toEqual([SECOND_US, 2 * SECOND_US, 3 * SECOND_US])
    expect(delaysUs({ backoff: 'none' }, 3)).toEqual([0, 0, 0])
  })

  test('stays at the maximum when the power is beyond all numbers', () => {
    expect(retryDelayUs(read({ factor: 1e300, jitter: false }), 10_000, random(0))).toBe(300 * SECOND_US)
    expect(retryDelayUs(read({ initial: 0, factor: 1e300 }), 10_000, random(0))).toBe(0)
  })

  test('is spread from half to one and a half, and capped again', () => {
    const policy = read({ max: '8s' })
    expect(retryDelayUs(policy, 3, random(0))).toBe(2 * SECOND_US)
    expect(retryDelayUs(policy, 3, random(0.5))).toBe(4 * SECOND_US)
    expect(retryDelayUs(policy, 3, random(0.999_999_9))).toBe(6 * SECOND_US)
    expect(retryDelayUs(policy, 4, random(0.999))).toBe(8 * SECOND_US)
  })

  test('is a whole number from 0 to the maximum for every policy and attempt', () => {
    const options = fc.record({
      backoff: fc.constantFrom('exponential', 'fixed', 'linear', 'none'),
      initial: fc.double({ min: 0, max: 1e6, noNaN: true }),
      factor: fc.double({ min: 1, max: 1e9, noNaN: true }),
      jitter: fc.boolean(),
    })
    fc.assert(
      fc.property(options, fc.integer({ min: 1, max: 10_000 }), fc.integer(), (given, attempt, seed) => {
        const policy = read(given)
        const us = retryDelayUs(policy, attempt, seededRandom(seed))
        expect(Number.isSafeInteger(us) && us >= 0 && us <= policy.maxUs).toBe(true)
      }),
    )
  })
})
