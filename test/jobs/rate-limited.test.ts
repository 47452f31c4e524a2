import { describe, expect, test } from 'vitest'
import type { Duration } from '../../src/base/duration.ts'
import { penaltyUs, RateLimited } from '../../src/jobs/rate-limited.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const facts = (retryAfter: unknown) => new RateLimited({ retryAfter: retryAfter as Duration }).retryAfter
const response = (headers: Record<string, string>): Response => new Response(null, { status: 429, headers })

describe('RateLimited', () => {
  test('keeps the limit by its name, and the key', () => {
    expect(new RateLimited({ retryAfter: '5s' })).toMatchObject({ name: 'RateLimited', limitName: null, key: null })
    expect(new RateLimited({ retryAfter: '5s', limit: 'crm', key: 5 })).toMatchObject({ limitName: 'crm', key: 5 })
    expect(new RateLimited({ retryAfter: '5s', limit: { name: 'crm' } })).toMatchObject({ limitName: 'crm', key: null })
  })

  test.each([
    ['5s', { kind: 'delay', us: 5_000_000 }],
    ['PT1M', { kind: 'delay', us: 60_000_000 }],
    [250, { kind: 'delay', us: 250_000 }],
    [new Date(NOW_MS), { kind: 'at', epochMs: NOW_MS }],
  ])('keeps %o as it was told', (value, told) => {
    expect(facts(value)).toEqual(told)
  })

  test('takes a negative number for a time that is past, and what is no time for not told', () => {
    expect(facts(-3_000)).toEqual({ kind: 'delay', us: 0 })
    expect(facts(Infinity)).toEqual({ kind: 'delay', us: 36_525 * 86_400_000_000 })
    for (const value of [Number.NaN, new Date(Number.NaN), undefined, null])
      expect(facts(value)).toEqual({ kind: 'absent' })
  })

  test('refuses a text that is no duration', () => {
    expect(() => facts('5x')).toThrow(expect.objectContaining({ code: 'duration.invalid' }))
  })

  test.each([
    [new Date(NOW_MS), 'come back at 2026-01-01T00:00:00.000Z'],
    ['1.5s', 'come back in 1500 ms'],
    [Number.NaN, 'it did not say when to come back'],
  ])('says in its message when to come back: %o', (retryAfter, text) => {
    expect(new RateLimited({ retryAfter: retryAfter as Duration }).message).toContain(text)
  })
})

describe('RateLimited.from', () => {
  test('reads Retry-After, and keeps the limit', () => {
    expect(RateLimited.from(response({ 'retry-after': '7' }), { limit: { name: 'crm' } })).toMatchObject({
      retryAfter: { kind: 'delay', us: 7_000_000 },
      limitName: 'crm',
    })
    expect(RateLimited.from(response({ 'retry-after': 'Thu, 01 Jan 2026 00:00:00 GMT' })).retryAfter).toEqual({
      kind: 'at',
      epochMs: NOW_MS,
    })
  })

  test('reads when the budget is renewed where there is no Retry-After', () => {
    const headers = { ratelimit: '"default";r=0;t=5' }
    expect(RateLimited.from(response(headers)).retryAfter).toEqual({ kind: 'delay', us: 5_000_000 })
    expect(RateLimited.from(response({ ...headers, 'retry-after': '9' })).retryAfter).toEqual({
      kind: 'delay',
      us: 9_000_000,
    })
  })

  test.each<[string, unknown]>([
    ['a plain object', { 'Retry-After': '7' }],
    ['numbers', { 'retry-after': 7 }],
    ['lists of values', { 'retry-after': ['7'] }],
    ['a map', new Map([['Retry-After', '7']])],
    ['pairs', [['Retry-After', '7']]],
    ['raw headers', ['Content-Type', 'text/plain', 'Retry-After', '7']],
    ['Headers', new Headers({ 'retry-after': '7' })],
    ['something with get', { get: (name: string) => (name === 'retry-after' ? '7' : undefined) }],
  ])('reads headers that are %s, of a response or by themselves', (_, headers) => {
    const seven = { kind: 'delay', us: 7_000_000 }
    expect(RateLimited.from({ headers: headers as Headers }).retryAfter).toEqual(seven)
    expect(RateLimited.from(headers as Headers).retryAfter).toEqual(seven)
  })

  test('takes what is no response for not told', () => {
    for (const odd of [undefined, null, 429, 'refused', {}, { headers: null }, { headers: 'x' }, [[1, 2], [], null]])
      expect(RateLimited.from(odd as unknown as Response).retryAfter).toEqual({ kind: 'absent' })
  })

  test('reads anthropic-ratelimit-* headers', () => {
    const headers = {
      'anthropic-ratelimit-requests-limit': '50',
      'anthropic-ratelimit-requests-remaining': '12',
      'anthropic-ratelimit-requests-reset': '2026-01-01T00:00:30Z',
      'anthropic-ratelimit-input-tokens-remaining': '0',
      'anthropic-ratelimit-input-tokens-reset': '2026-01-01T00:00:05Z',
    }
    expect(RateLimited.from({ headers }).retryAfter).toEqual({ kind: 'at', epochMs: NOW_MS + 5000 })
    expect(RateLimited.from({ headers: { ...headers, 'retry-after': '9' } }).retryAfter).toEqual({
      kind: 'delay',
      us: 9_000_000,
    })
  })

  test('reads GitHub’s limits: the primary one until it is renewed, a secondary one for a minute unless it says how long', () => {
    const secondary = {
      'x-github-request-id': 'A:1',
      'x-ratelimit-limit': '5000',
      'x-ratelimit-remaining': '4999',
      'x-ratelimit-reset': String(NOW_MS / 1000 + 3000),
    }
    expect(RateLimited.from({ headers: secondary }).retryAfter).toEqual({ kind: 'delay', us: 60_000_000 })
    expect(RateLimited.from({ headers: { ...secondary, 'retry-after': '30' } }).retryAfter).toEqual({
      kind: 'delay',
      us: 30_000_000,
    })
    expect(RateLimited.from({ headers: { ...secondary, 'x-ratelimit-remaining': '0' } }).retryAfter).toEqual({
      kind: 'at',
      epochMs: NOW_MS + 3_000_000,
    })
  })

  test('learns nothing from unreadable headers of any source', () => {
    const told = ['NaN', '', '-', '[object Object]'].map(
      (said) => RateLimited.from({ headers: { get: () => said } }).retryAfter.kind,
    )
    expect(told).toEqual(['absent', 'absent', 'absent', 'absent'])
  })

  test('keeps every microsecond of a delay', () => {
    for (const ms of ['1.001', '0.003', '1234.567', '8.191']) {
      expect(RateLimited.from(response({ 'retry-after-ms': ms })).retryAfter).toEqual({
        kind: 'delay',
        us: Math.ceil(Number(ms) * 1_000),
      })
    }
  })

  test('takes a response without such headers, or with garbage, for not told', () => {
    expect(RateLimited.from(response({})).retryAfter).toEqual({ kind: 'absent' })
    expect(RateLimited.from(response({ 'retry-after': 'soon', ratelimit: ';;;=,"' })).retryAfter).toEqual({
      kind: 'absent',
    })
  })

  test('reads a date without a century by the clock that is given', () => {
    const headers = { 'retry-after': 'Friday, 01-Jan-27 00:00:00 GMT' }
    expect(RateLimited.from(response(headers), { now: NOW_MS }).retryAfter).toEqual({
      kind: 'at',
      epochMs: Date.UTC(2027, 0, 1),
    })
    expect(RateLimited.from(response(headers), { now: Date.UTC(1926, 0, 1) }).retryAfter).toEqual({
      kind: 'at',
      epochMs: Date.UTC(1927, 0, 1),
    })
  })
})

describe('penaltyUs', () => {
  const basis = { nowMs: NOW_MS, intervalUs: 4_000_000, periodUs: 60_000_000 }
  const penalty = (retryAfter: unknown, more: object = {}): number =>
    penaltyUs(new RateLimited({ retryAfter: retryAfter as Duration }), { ...basis, ...more })

  test('is what was told', () => {
    expect(penalty('7s')).toBe(7_000_000)
    expect(penalty('1ms')).toBe(1_000)
    expect(penalty(new Date(NOW_MS + 1_500))).toBe(1_500_000)
  })

  test('is one interval when that is past', () => {
    for (const past of [0, -5, new Date(NOW_MS), new Date(NOW_MS - 60_000)]) expect(penalty(past)).toBe(4_000_000)
  })

  test('is one period, and at least a second, when nothing was told', () => {
    expect(penalty(Number.NaN)).toBe(60_000_000)
    expect(penalty(Number.NaN, { periodUs: 200_000 })).toBe(1_000_000)
    expect(penalty(Number.NaN, { periodUs: 0 })).toBe(1_000_000)
  })

  test('is never longer than the longest, one hour by default', () => {
    const dayUs = 86_400_000_000
    expect(penalty('2h')).toBe(3_600_000_000)
    expect(penalty(new Date(8.64e15))).toBe(3_600_000_000)
    expect(penalty(Number.NaN, { periodUs: dayUs })).toBe(3_600_000_000)
    expect(penalty(0, { intervalUs: dayUs })).toBe(3_600_000_000)
    expect(penalty('7s', { maxPenaltyUs: 1_000_000 })).toBe(1_000_000)
  })
})
