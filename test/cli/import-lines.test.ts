import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readLine } from '../../src/cli/transfer/lines.ts'
import { limit, type Policy, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { useOf } from '../../src/policy/limits/define.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import * as fc from '../properties.ts'
import { folder, sluice } from './terminal.ts'

const rate = { kind: 'rate', rate: 1, periodUs: 1e6, burst: 1, startEmpty: false }
const sliding = { kind: 'sliding', max: 1, periodUs: 1e6 }
const fixed = { kind: 'fixed', max: 1, window: { align: 'epoch', periodUs: 1e6 }, guardUs: 0 }
const spacing = { kind: 'spacing', everyUs: 1000 }
const policy = { rule: rate, concurrency: null, onLimit: 'wait', maxWaitUs: null, retries: 'charge' }
const of = { limit: 'all', rule: rate, concurrency: null, keys: null, overcommit: 'refuse' }

function without(object: object, member: string): object {
  return Object.fromEntries(Object.entries(object).filter(([name]) => name !== member))
}

function lineOf(line: object): string {
  return JSON.stringify({ kind: 'limit', name: 'crm', version: 0, ...line })
}

test('a line that has a name twice is refused with its path', () => {
  const line = '{"kind":"limit","name":"a","version":0,"policy":{"rule":{"every":1,"every":2}}}'
  expect(() => readLine(line, 7)).toThrow('Line 7 is invalid: policy.rule.every is there twice.')
})

describe('the line of a limit is refused, with the member and the expected value, for', () => {
  test.each<[string, object, string]>([
    ['a rate without burst', { rule: without(rate, 'burst') }, 'policy.rule.burst: Invalid input: expected number'],
    [
      'a misspelt period',
      { rule: { ...without(rate, 'periodUs'), periodMs: 1000 } },
      'policy.rule.periodUs: Invalid input: expected number',
    ],
    ['a window without max', { rule: without(sliding, 'max') }, 'policy.rule.max'],
    ['a window without a period', { rule: without(sliding, 'periodUs') }, 'policy.rule.periodUs'],
    ['a fixed window without a window', { rule: without(fixed, 'window') }, 'policy.rule.window'],
    ['an unknown alignment', { rule: { ...fixed, window: { align: 'moon' } } }, 'policy.rule.window.align'],
    [
      'a time zone that is none',
      { rule: { ...fixed, window: { align: 'calendar', unit: 'day', timezone: 'Mars/North' } } },
      "timezone is invalid: 'Mars/North'. Expected an IANA name",
    ],
    ['a spacing without an interval', { rule: { kind: 'spacing' } }, 'policy.rule.everyUs'],
    ['an empty spacing beside a rate', { spacing: {} }, 'policy.spacing.kind'],
    ['a spacing beside a spacing', { rule: spacing, spacing }, 'policy.spacing is invalid: {"kind":"spacing"'],
    ['a rate of 0', { rule: { ...rate, rate: 0 } }, 'rate is invalid: 0. Expected a whole number from 1'],
    ['half a unit', { rule: { ...rate, rate: 0.5 } }, 'policy.rule.rate: Invalid input: expected int'],
    ['a period of 0', { rule: { ...sliding, periodUs: 0 } }, 'per is invalid: 0. Expected a duration above zero'],
    ['a burst of 200 years', { rule: { ...rate, burst: 1e9, periodUs: 1e13 } }, 'takes over 100 years to refill'],
    ['a text as start', { rule: { ...rate, startEmpty: 'no' } }, 'policy.rule.startEmpty'],
    ['an unknown member', { concurency: 3 }, 'policy: concurency is unknown. Expected rule, spacing, concurrency'],
    ['an unknown member of the rule', { rule: { ...rate, brust: 3 } }, 'policy.rule: brust is unknown. Expected kind'],
    ['no rule', { rule: null }, 'the policy has no rule. Expected { rate, per }'],
    ['another mode', { mode: 'shaddow' }, 'policy.mode: Invalid input: expected "shadow"'],
    ['another scope', { scope: 'galaxy' }, 'policy.scope: Invalid option: expected one of "fleet"|"worker"'],
    ['a number as backend', { backend: 5 }, 'policy.backend'],
    ['shadow mode beside a backend', { backend: 'redis', mode: 'shadow' }, 'policy'],
    ['a text as headroom', { headroom: 'x' }, 'policy.headroom'],
    ['a headroom as large as the burst', { headroom: { units: 1, priority: 5 } }, 'headroom is invalid: 1 units'],
    ['a guard that the rule does not have', { guardUs: 2e6 }, 'per'],
    ['a default guard of a rate', { defaultGuard: true }, 'policy.defaultGuard is invalid: true. Expected none'],
    ['a share without its part', { of: { limit: 'all' } }, 'policy.of.rule'],
    ['a share of itself', { of: { ...of, limit: 'crm' } }, 'of.limit is the limit itself'],
    [
      'a share above its own rate',
      { of: { ...of, rule: { ...rate, rate: 9 } } },
      'of.atLeast is more than its own rate',
    ],
    ['a reserve', { reserve: 5 }, 'policy: reserve is unknown'],
  ])('%s', (_, change, words) => {
    const read = (): unknown => readLine(lineOf({ policy: { ...policy, ...change } }), 7)
    expect(read).toThrow(/^Line 7 is invalid: .+[^.]\. Nothing was imported\.$/)
    expect(read).toThrow(words)
  })

  test('a name that no limit can have', () => {
    expect(() => readLine(lineOf({ name: 'a\0b', policy }), 7)).toThrow('Line 7 is invalid: name')
  })
})

test('the line of a job of a task that cannot be defined is refused', () => {
  const job = { kind: 'job', id: '01a20021-deb9-7f2f-a3ad-017f490bb225', task: 'NOT A TASK' }
  expect(() => readLine(JSON.stringify(job), 7)).toThrow('Line 7 is invalid: task: is not a task name. Expected')
})

test.each([
  { timeout: '36525d', ms: 3_155_760_000_000 },
  { timeout: '0s', ms: 0 },
] as const)('the line of a job with a timeout of $timeout, which a call may have, is read', async ({ timeout, ms }) => {
  const work = task('work', { run: () => undefined })
  const store = `sqlite:${join(folder(), 'jobs.db')}`
  const engine = new Sluice({ store, tasks: [work], logger: silentLogger })
  await work.enqueue(undefined, { timeout })
  await engine.stop()
  const { out } = await sluice(['export', '--store', store])
  expect(out).toContain(`"timeoutMs":${ms},`)
  expect(readLine(out, 1)).toMatchObject({ kind: 'job', job: { terms: { timeoutUs: ms * 1000 } } })
})

const count = fc.integer({ min: 1, max: 1_000_000_000 })
const us = fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 3_155_760_000_000_000 }))
const length = us.map((each) => each / 1000)
const option = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined })

const rules: fc.Arbitrary<object> = fc.oneof(
  fc.record({
    rate: count,
    per: length,
    burst: option(count),
    startEmpty: option(fc.boolean()),
    every: option(length),
  }),
  fc.record({ window: fc.constantFrom('sliding', 'fixed'), max: count, per: length, every: option(length) }),
  fc.record({
    window: fc.constant('fixed'),
    max: count,
    per: fc.constantFrom('1h', '1d', '1w', 'P1M'),
    timezone: fc.constantFrom('UTC', 'Europe/Paris', 'America/Argentina/Salta'),
    every: option(length),
  }),
  fc.record({ every: length }),
  fc.record({ concurrency: fc.nat(10) }),
)
const options: fc.Arbitrary<object> = fc.record({
  onLimit: option(fc.constantFrom('wait', 'reschedule', 'drop')),
  maxWait: option(length),
  retries: option(fc.constantFrom('charge', 'free')),
  guard: option(fc.integer({ min: 0, max: 2_000_000 }).map((each) => each / 1000)),
  scope: option(fc.constantFrom('fleet', 'worker')),
  backend: option(fc.constantFrom('redis')),
  onMissingKey: option(fc.constantFrom('unlimited', 'fail', 'shared')),
  headroom: option(fc.record({ units: fc.integer({ min: 1, max: 9 }), priority: fc.integer({ min: -100, max: 100 }) })),
  calibrate: option(
    fc.oneof(
      fc.constant('headers'),
      fc.record({
        from: fc.constant('headers'),
        direction: option(fc.constantFrom('down', 'both')),
        reset: option(fc.constantFrom('window', 'refill')),
        budget: option(fc.constant('tokens')),
      }),
    ),
  ),
  mode: option(fc.constantFrom('enforce', 'shadow')),
  version: option(fc.nat()),
})
const concurrency = option(fc.integer({ min: 0, max: 1000 }))

/** The stored policy of a declaration; null: the declaration is refused. */
function storedOf(declared: object): LimitPolicy | null {
  try {
    return useOf(limit('crm', declared as Policy)).policy
  } catch {
    return null
  }
}

function expectKept(stored: LimitPolicy): void {
  const read = readLine(lineOf({ version: stored.version, policy: stored }), 1)
  // A store takes a policy with its members in another order for a new one.
  expect(JSON.stringify(read)).toBe(
    JSON.stringify({ kind: 'limit', limit: { name: 'crm', version: stored.version, policy: stored } }),
  )
}

test('the line of every limit that can be declared is read as the same definition', () => {
  let kept = 0
  const some = fc.subarray(['onLimit', 'maxWait', 'retries', 'guard', 'scope', 'backend', 'onMissingKey', 'headroom'])
  fc.assert(
    fc.property(rules, concurrency, options, some, (rule, slots, all, named) => {
      const chosen = Object.fromEntries(
        Object.entries(all).filter(([name]) => ['calibrate', 'mode', 'version', ...named].includes(name)),
      )
      const stored = storedOf({ concurrency: slots, ...rule, ...chosen })
      if (stored === null) return
      kept++
      expectKept(stored)
    }),
    { numRuns: 3000 },
  )
  expect(kept).toBeGreaterThan(500)
})

test('the line of every limit with a share of another is read as the same definition', () => {
  const all = limit('all', { rate: 1_000_000_000, per: 0.001, concurrency: 1_000_000_000 })
  const atLeast = fc.oneof(
    fc.record({ rate: count, per: length, burst: option(count), concurrency: option(fc.integer({ min: 1, max: 9 })) }),
    fc.record({ every: length, concurrency: option(fc.integer({ min: 1, max: 9 })) }),
    fc.record({ concurrency: fc.integer({ min: 1, max: 9 }) }),
    fc.constantFrom('5/s', '5/m burst 2, guard 20ms', '2 at once'),
  )
  const share = fc.record({ atLeast, keys: option(count), overcommit: option(fc.constantFrom('refuse', 'scale')) })
  let kept = 0
  fc.assert(
    fc.property(rules, concurrency, share, (rule, slots, each) => {
      const stored = storedOf({ concurrency: slots, ...rule, of: { limit: all, ...each } })
      if (stored === null) return
      kept++
      expectKept(stored)
    }),
    { numRuns: 3000 },
  )
  expect(kept).toBeGreaterThan(100)
})
