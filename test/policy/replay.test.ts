import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { type Arrival, limit, type Policy, replay } from '../../src/exports/index.ts'
import { replayed } from '../../src/policy/forecast/replay.ts'
import { newBucket } from '../../src/policy/limits/bucket.ts'
import { useOf } from '../../src/policy/limits/define.ts'
import { chargeShadow, shadowOf } from '../../src/policy/limits/shadow.ts'
import { EPOCH_US, policyOf } from './histories.ts'
import { rules } from './shadow-rules.ts'

const at = (ms: number): number => 1_800_000_000_000 + ms

describe('a replay', () => {
  test('delays each arrival as the limit itself says in shadow mode', () => {
    const histories = fc.record({
      rule: rules,
      gaps: fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 900_000 })), { minLength: 1, maxLength: 40 }),
    })
    fc.assert(
      fc.property(histories, ({ rule, gaps }) => {
        const policy = policyOf(rule)
        const shadow = shadowOf({ ...policy, mode: 'shadow' })
        let nowUs = EPOCH_US
        const arrivals = gaps.map((gapUs) => ({ atUs: (nowUs += gapUs), key: '', weight: 1, runUs: null }))
        const state = newBucket(shadow, arrivals[0]!.atUs)
        const delays = arrivals.map(({ atUs }) => chargeShadow(shadow, state, 0, atUs, 1)?.delayUs ?? 0)
        const found = replayed(policy, arrivals.toReversed().toReversed(), null)
        expect(found.worstMs).toBe(Math.max(...delays) / 1000)
        expect(found.delayed).toBe(delays.filter((us) => us > 0).length)
        const inOrder = delays.toSorted((a, b) => a - b)
        expect(found.p50Ms).toBe(inOrder[Math.ceil(delays.length / 2) - 1]! / 1000)
        expect(found.used).toBeGreaterThan(0)
        expect(found.used).toBeLessThanOrEqual(1)
      }),
      { numRuns: 300 },
    )
  })

  test('counts waits, losses, the backlog at the end and the worst keys, whatever the order of the list', () => {
    const arrivals: Arrival[] = [
      ...Array.from({ length: 4 }, () => ({ at: at(0), key: 'acme' })),
      { at: new Date(at(1000)), key: 'birch' },
      { at: new Date(at(500)).toISOString(), key: 42 },
      { at: at(1000), key: '42' },
    ]
    const found = replay('1 per 1s', arrivals.toReversed())
    expect(found).toMatchObject({
      arrivals: 7,
      keys: 3,
      delayed: 4,
      dropped: 0,
      backlog: 3,
      p50Ms: 500,
      p99Ms: 3000,
      worstMs: 3000,
      from: new Date(at(0)),
      until: new Date(at(1000)),
    })
    expect(found.worst.map(({ key, worstMs }) => [key, worstMs])).toEqual([
      ['acme', 3000],
      ['42', 500],
      ['birch', 0],
    ])
    const dropping = replay({ rate: 1, per: '1s', onLimit: 'drop' }, arrivals)
    expect(dropping).toMatchObject({ arrivals: 7, dropped: 4, delayed: 0, worstMs: 0, backlog: 0 })
    expect(replay({ rate: 1, per: '1s', maxWait: '1s' }, arrivals)).toMatchObject({ dropped: 2, worstMs: 1000 })
  })

  test('knows how many run at once, by how long each ran', () => {
    const arrivals = [0, 0, 0, 100].map((ms) => ({ at: at(ms), runTime: '1s' as const }))
    expect(replay('2 at once', arrivals)).toMatchObject({ delayed: 2, p50Ms: 0, worstMs: 1000, used: 1 })
    expect(replay('2 at once', [...arrivals, { at: at(0) }], { runTime: '5s' }).worstMs).toBe(1900)
    expect(replay('paused', [{ at: at(0) }], { runTime: 1 })).toMatchObject({ worstMs: Infinity, backlog: 1 })
    expect(() => replay('2 at once', [{ at: at(0) }])).toThrow('Give runTime')
  })

  test('of no arrival is empty', () => {
    expect(replay('1/s', [])).toMatchObject({
      arrivals: 0,
      keys: 0,
      from: null,
      until: null,
      used: 0,
      worst: [],
      p99Ms: 0,
    })
  })

  test('uses up a budget that is asked for more, and counts a limit in shadow mode as enforced', () => {
    const crowd = Array.from({ length: 500 }, (_, i) => ({ at: at(i) }))
    const found = replay({ rate: 10, per: '1s', burst: 1, mode: 'shadow' }, crowd)
    expect(found.used).toBeGreaterThan(0.98)
    expect(found.delayed).toBe(499)
    expect(replay('1000/s', crowd).used).toBeLessThan(0.5)
  })

  test.each<[string, unknown, unknown, string, string?]>([
    ['a misspelt policy', { rat: 1, per: '1s' }, [], 'policy.invalid'],
    ['no list', '1/s', null, 'option.invalid'],
    ['a text as list', '1/s', 'acme', 'option.invalid'],
    ['no arrival', '1/s', [null], 'option.invalid', 'arrival 1'],
    ['a misspelt field', '1/s', [{ at: 0 }, { at: 0, kee: 1 }], 'option.invalid', 'arrival 2'],
    [
      'a time that is none, behind one that is not limited',
      { rate: 1, per: '1s', onMissingKey: 'unlimited' },
      [{ at: 0 }, { at: 0 }, { at: 'x' }],
      'option.invalid',
      'arrival 3',
    ],
    ['no time', '1/s', [{}], 'option.invalid', 'at is invalid'],
    ['a time that is none', '1/s', [{ at: 'yesterday' }], 'option.invalid', 'at is invalid'],
    ['a text without a zone', '1/s', [{ at: '2030-01-31T12:00:00' }], 'option.invalid', 'at is invalid'],
    ['a day that is none', '1/s', [{ at: '2030-02-31T12:00:00Z' }], 'option.invalid', 'at is invalid'],
    ['a time far off', '1/s', [{ at: 1e308 }], 'option.invalid', 'at is invalid'],
    ['NaN', '1/s', [{ at: Number.NaN }], 'option.invalid', 'at is invalid'],
    ['a date that is none', '1/s', [{ at: new Date('x') }], 'option.invalid', 'at is invalid'],
    ['an object as key', '1/s', [{ at: 0, key: {} }], 'limit.key.invalid'],
    ['a weight of 0', '1/s', [{ at: 0, weight: 0 }], 'limit.weight.invalid'],
    ['a weight of 1e308', '1/s', [{ at: 0, weight: 1e308 }], 'limit.weight.invalid'],
    ['a run of no length', '1/s', [{ at: 0, runTime: 'long' }], 'duration.invalid'],
  ])('is refused for %s', (_name, policy, arrivals, code, message = '') => {
    expect(() => replay(policy as Policy, arrivals as Arrival[])).toThrow(expect.objectContaining({ code }))
    expect(() => replay(policy as Policy, arrivals as Arrival[])).toThrow(message)
  })

  test('takes any text as a key', () => {
    const keys = ['\0', '\uD800', 'x'.repeat(10_000), '', null, undefined, -0, 0]
    expect(
      replay(
        '1/s',
        keys.map((key) => ({ at: at(0), key: key as string })),
      ).keys,
    ).toBe(5)
    expect(useOf(limit('x', '1/s')).policy.mode).toBeUndefined()
  })
})
