import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { isRefusal, readRateLimitHeaders } from '../../src/jobs/rate-limit-headers.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const read = (headers: Record<string, string>) => readRateLimitHeaders(new Headers(headers), NOW_MS)
const delay = (us: number) => ({ kind: 'delay', us })
const at = (epochMs: number) => ({ kind: 'at', epochMs })
const resetIn = (ms: number) => ({ reset: delay(ms * 1_000), resetAtMs: NOW_MS + ms })

describe('Retry-After', () => {
  test.each([
    ['120', delay(120_000_000)],
    ['0', delay(0)],
    ['1.5', delay(1_500_000)],
    [' 7 ', delay(7_000_000)],
    ['Sun, 06 Nov 1994 08:49:37 GMT', at(Date.UTC(1994, 10, 6, 8, 49, 37))],
    ['Sunday, 06-Nov-94 08:49:37 GMT', at(Date.UTC(1994, 10, 6, 8, 49, 37))],
    ['Sun Nov  6 08:49:37 1994', at(Date.UTC(1994, 10, 6, 8, 49, 37))],
    ['9'.repeat(400), delay(36_525 * 86_400_000_000)],
  ])('%j is read', (value, retryAfter) => {
    expect(read({ 'retry-after': value })).toEqual({ retryAfter })
  })

  test.each(['', '-1', '1e3', 'soon', '5s', '2026-01-01', '1, 2', 'NaN', 'Infinity', '0x10'])(
    '%j is ignored',
    (value) => {
      expect(read({ 'retry-after': value })).toEqual({})
    },
  )

  test('in milliseconds is the more exact one', () => {
    expect(read({ 'retry-after': '1', 'retry-after-ms': '250.5' })).toEqual({ retryAfter: delay(250_500) })
    expect(read({ 'retry-after': '1', 'retry-after-ms': 'x' })).toEqual({ retryAfter: delay(1_000_000) })
  })
})

describe('the headers of one provider', () => {
  test('Anthropic’s are several budgets, of which one may be meant', () => {
    const headers = {
      'anthropic-ratelimit-requests-limit': '50',
      'anthropic-ratelimit-requests-remaining': '12',
      'anthropic-ratelimit-requests-reset': '2026-01-01T00:00:30Z',
      'anthropic-ratelimit-output-tokens-limit': '8000',
      'anthropic-ratelimit-output-tokens-remaining': '0',
      'anthropic-ratelimit-output-tokens-reset': '2026-01-01T00:00:05Z',
    }
    const scarcest = { limit: 8000, remaining: 0, reset: at(NOW_MS + 5000), resetAtMs: NOW_MS + 5000 }
    expect(read(headers)).toEqual(scarcest)
    expect(readRateLimitHeaders(headers, NOW_MS, 'output-tokens')).toEqual(scarcest)
    expect(readRateLimitHeaders(headers, NOW_MS, 'requests')).toMatchObject({ limit: 50, remaining: 12 })
  })

  test('Shopify’s are calls in its bucket of so many', () => {
    expect(read({ 'X-Shopify-Shop-Api-Call-Limit': '32/40' })).toEqual({ limit: 40, remaining: 8 })
    expect(read({ 'X-Shopify-Shop-Api-Call-Limit': '41/40' })).toEqual({ limit: 40, remaining: 0 })
    expect(read({ 'X-Shopify-Shop-Api-Call-Limit': '40' })).toEqual({})
  })

  test('Xero’s and HubSpot’s are what is left of each budget', () => {
    const xero = { 'X-MinLimit-Remaining': '59', 'X-DayLimit-Remaining': '0', 'X-AppMinLimit-Remaining': '9999' }
    expect(read(xero)).toEqual({ remaining: 0 })
    expect(readRateLimitHeaders(xero, NOW_MS, 'minute')).toEqual({ remaining: 59 })
    expect(readRateLimitHeaders(xero, NOW_MS, 'app-minute')).toEqual({ remaining: 9999 })
    const hubspot = { 'X-HubSpot-RateLimit-Daily': '650000', 'X-HubSpot-RateLimit-Daily-Remaining': '649999' }
    expect(readRateLimitHeaders(hubspot, NOW_MS, 'daily')).toEqual({ limit: 650_000, remaining: 649_999 })
  })

  test.each([
    [429, {}, true],
    [403, { 'x-github-request-id': 'A:1', 'retry-after': '60' }, true],
    [403, { 'x-ratelimit-resource': 'core', 'x-ratelimit-remaining': '0' }, true],
    [403, { 'x-github-request-id': 'A:1', 'x-ratelimit-remaining': '10' }, false],
    [403, { 'retry-after': '60' }, false],
    [200, { 'retry-after': '60' }, false],
  ])('a status of %i with %j is a refusal: %s', (status, headers, refuses) => {
    expect(isRefusal({ status, headers })).toBe(refuses)
  })
})

describe('the RateLimit fields of the drafts', () => {
  test('are read as three fields, with a policy behind the limit', () => {
    const headers = { 'ratelimit-limit': '10, 10;w=1, 50;w=60', 'ratelimit-remaining': '0', 'ratelimit-reset': '5' }
    expect(read(headers)).toEqual({ limit: 10, remaining: 0, ...resetIn(5_000) })
  })

  test('are read as a dictionary', () => {
    expect(read({ ratelimit: 'limit=100, remaining=0, reset=5' })).toEqual({
      limit: 100,
      remaining: 0,
      ...resetIn(5_000),
    })
    expect(read({ ratelimit: 'reset=5' })).toEqual(resetIn(5_000))
  })

  test('are read as a list', () => {
    expect(read({ ratelimit: '"default";r=0;t=5' })).toEqual({ remaining: 0, ...resetIn(5_000) })
    expect(read({ ratelimit: 'default ; r=50 ; t=30' })).toEqual({ remaining: 50, ...resetIn(30_000) })
    expect(read({ ratelimit: '"a, b; \\" r=9;t=9";r=1;t=2' })).toEqual({ remaining: 1, ...resetIn(2_000) })
  })

  test('of several budgets give the one that is used up and renewed last', () => {
    const ratelimit = '"burst";r=0;t=5, "minute";r=0;t=40, "daily";r=100;t=3600'
    expect(read({ ratelimit })).toEqual({ remaining: 0, ...resetIn(40_000) })
  })

  test('go before the older headers', () => {
    expect(read({ ratelimit: '"d";r=1;t=2', 'x-ratelimit-reset': '99' })).toEqual({ remaining: 1, ...resetIn(2_000) })
  })
})

describe('the x-ratelimit headers', () => {
  test.each([
    ['30', { ...resetIn(30_000) }],
    ['0', { ...resetIn(0) }],
    ['1767225605', { reset: at(1_767_225_605_000), resetAtMs: 1_767_225_605_000 }],
    ['1767225605.25', { reset: at(1_767_225_605_250), resetAtMs: 1_767_225_605_250 }],
    ['1767225605123', { reset: at(1_767_225_605_123), resetAtMs: 1_767_225_605_123 }],
    ['2026-01-01T00:00:05Z', { reset: at(NOW_MS + 5_000), resetAtMs: NOW_MS + 5_000 }],
    ['2026-01-01T00:01Z', { reset: at(NOW_MS + 60_000), resetAtMs: NOW_MS + 60_000 }],
    ['2026-01-01T01:00:05.5+01:00', { reset: at(NOW_MS + 5_500), resetAtMs: NOW_MS + 5_500 }],
    ['Thu, 01 Jan 2026 00:00:05 GMT', { reset: at(NOW_MS + 5_000), resetAtMs: NOW_MS + 5_000 }],
    ['6m0s', { ...resetIn(360_000) }],
    ['20ms', { ...resetIn(20) }],
    ['1h2m3.5s', { ...resetIn(3_723_500) }],
  ])('reset %j is read', (value, facts) => {
    expect(read({ 'x-ratelimit-reset': value })).toEqual(facts)
  })

  test.each(['', '-5', 'later', '5x', '6m0', '99999999999999999999', '2026-13-01T00:00:00Z', '2026-01-01'])(
    'reset %j is ignored',
    (value) => {
      expect(read({ 'x-ratelimit-reset': value })).toEqual({})
    },
  )

  test('with a delay beside the instant give the delay, which needs no common clock', () => {
    expect(read({ 'x-ratelimit-reset': '1767225605', 'x-ratelimit-reset-after': '4.5' })).toEqual(resetIn(4_500))
  })

  test('for requests and tokens give the budget that is used up', () => {
    const headers = {
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-limit-tokens': '150000',
      'x-ratelimit-remaining-tokens': '149984',
      'x-ratelimit-reset-tokens': '6m0s',
    }
    expect(read(headers)).toEqual({ limit: 60, remaining: 0, ...resetIn(1_000) })
  })

  test('are known with a hyphen more, too', () => {
    expect(read({ 'x-rate-limit-limit': '15', 'x-rate-limit-remaining': '3', 'x-rate-limit-reset': '9' })).toEqual({
      limit: 15,
      remaining: 3,
      ...resetIn(9_000),
    })
  })

  test('keep the remaining units where no reset is told', () => {
    expect(read({ 'x-ratelimit-remaining': '3' })).toEqual({ remaining: 3 })
  })
})

test('no headers give no facts', () => {
  expect(read({})).toEqual({})
})

test('whatever the headers hold, nothing throws, and what is read is usable', () => {
  const name = fc.constantFrom(
    'retry-after',
    'retry-after-ms',
    'ratelimit',
    'ratelimit-limit',
    'ratelimit-remaining',
    'ratelimit-reset',
    'x-ratelimit-reset',
    'x-ratelimit-reset-tokens',
    'x-ratelimit-remaining',
  )
  const near = fc.stringMatching(/^[-"\\;,=rtq0-9.smhd :TZGMT]{0,30}$/)
  fc.assert(
    fc.property(fc.dictionary(name, fc.oneof(near, fc.string(), fc.double().map(String))), (headers) => {
      const facts = readRateLimitHeaders({ get: (key) => headers[key] }, NOW_MS)
      for (const told of [facts.retryAfter, facts.reset]) {
        if (told?.kind === 'delay') expect(Number.isSafeInteger(told.us) && told.us >= 0).toBe(true)
        if (told?.kind === 'at') expect(Number.isNaN(new Date(told.epochMs).getTime())).toBe(false)
      }
      for (const number of [facts.remaining, facts.limit]) expect(Number.isSafeInteger(number ?? 0)).toBe(true)
    }),
    { numRuns: 2_000 },
  )
})

test('hostile quoting takes no time', () => {
  const start = systemClock.monotonicUs()
  read({
    ratelimit: '"'.repeat(65_536),
    'x-ratelimit-reset': '1m'.repeat(30_000) + 'x',
    'retry-after': '1'.repeat(65_536) + 'x',
  })
  expect(systemClock.monotonicUs() - start).toBeLessThan(1_000_000)
})
