import { describe, expect, test } from 'vitest'
import { paintFor } from '../../src/cli/demo/paint.ts'
import { tableOf } from '../../src/cli/table.ts'
import { inWords } from '../../src/cli/words.ts'
import { policyInWords } from '../../src/policy/limits/policy-words.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'

test.each([
  [0, 'now'],
  [0.6, '1 ms'],
  [999.4, '999 ms'],
  [999.6, '1.0 s'],
  [59_940, '59.9 s'],
  [59_960, '1 min 0 s'],
  [119_600, '2 min 0 s'],
  [3_599_600, '1 h 0 min'],
  [9_000_000, '2 h 30 min'],
  [86_400_000, '1 d 0 h'],
  [100_000_000, '1 d 3 h'],
])('%d ms are %s', (ms, words) => {
  expect(inWords(ms)).toBe(words)
})

describe('a policy in words', () => {
  test.each<[Policy, string]>([
    [{ rate: 1000, per: '1m' }, '1,000 per 1 min, burst 1,000'],
    [{ rate: 3, per: '90s', burst: 1, concurrency: 4 }, '3 per 1.5 min, burst 1, 4 at once'],
    [{ window: 'sliding', max: 15, per: '1m', guard: '100ms' }, '15 in any 1 min, guard 100 ms'],
    [{ window: 'sliding', max: 15, per: '1m', every: '1s' }, '15 in any 1 min, one every 1 s, guard 20 ms'],
    [{ window: 'sliding', max: 15, per: '1m', guard: 0 }, '15 in any 1 min, no guard'],
    [{ rate: 3, per: '1m', every: '1s', guard: '1ms' }, '3 per 1 min, burst 3, one every 1 s, guard 1 ms'],
    [{ window: 'fixed', max: 5, per: '1d', timezone: 'Europe/Rome' }, '5 in each day of Europe/Rome'],
    [{ window: 'fixed', max: 5, per: '10s' }, '5 in each 10 s'],
    [{ every: 0.5 }, 'one every 500 µs'],
    [{ concurrency: 0 }, 'paused'],
  ])('%j', (policy, words) => {
    expect(policyInWords(normalisePolicy(policy, 'x'))).toBe(words)
  })
})

test('a table has columns as wide as their cells, without control characters, and cuts what is too long', () => {
  const lines = tableOf(
    [{ head: 'key' }, { head: 'n', right: true }],
    [
      ['a\nb', '10'],
      ['x'.repeat(60), '1'],
    ],
    paintFor(false),
  )
  expect(lines).toEqual([`key${' '.repeat(45)}   n`, `a�b${' '.repeat(45)}  10`, `${'x'.repeat(47)}…   1`])
})
