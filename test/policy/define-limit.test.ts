import { describe, expect, test } from 'vitest'
import { SluiceError } from '../../src/base/errors.ts'
import { checkUnits, inlineUse, isLimitUse, limit, useOf } from '../../src/policy/limits/define.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'

const DEFAULTS = {
  concurrency: null,
  onLimit: 'wait',
  maxWaitUs: null,
  retries: 'charge',
  scope: 'fleet',
  version: 0,
}

describe('a policy', () => {
  test.each<[Policy, object]>([
    [{ rate: 15, per: '1m' }, { rule: { kind: 'rate', rate: 15, periodUs: 60_000_000, burst: 15, startEmpty: false } }],
    [
      { rate: 15, per: 'PT1M', burst: 3, startEmpty: true, guard: '1s', concurrency: 4 },
      {
        rule: { kind: 'rate', rate: 15, periodUs: 61_000_000, burst: 3, startEmpty: true },
        concurrency: 4,
        guardUs: 1_000_000,
      },
    ],
    [
      { window: 'sliding', max: 5, per: '1s', guard: '100ms' },
      { rule: { kind: 'sliding', max: 5, periodUs: 1_100_000 }, guardUs: 100_000 },
    ],
    [
      { window: 'fixed', max: 5, per: '1h', guard: 5 },
      { rule: { kind: 'fixed', max: 5, window: { align: 'epoch', periodUs: 3_600_000_000 }, guardUs: 5000 } },
    ],
    [
      { window: 'fixed', max: 5, per: 'P1M', timezone: 'Europe/Paris' },
      {
        rule: {
          kind: 'fixed',
          max: 5,
          window: { align: 'calendar', unit: 'month', timezone: 'Europe/Paris' },
          guardUs: 0,
        },
      },
    ],
    [{ every: 0.001 }, { rule: { kind: 'spacing', everyUs: 1 } }],
    [
      {
        concurrency: 0,
        onLimit: 'drop',
        maxWait: '5s',
        retries: 'free',
        onMissingKey: 'fail',
        version: 3,
      },
      {
        rule: null,
        concurrency: 0,
        onLimit: 'drop',
        maxWaitUs: 5_000_000,
        retries: 'free',
        onMissingKey: 'fail',
        version: 3,
      },
    ],
    [
      { concurrency: 1, scope: 'worker' },
      { rule: null, concurrency: 1, scope: 'worker' },
    ],
  ])('%j is read with its defaults', (policy, expected) => {
    expect(normalisePolicy(policy, 'limit crm')).toEqual({ ...DEFAULTS, ...expected })
  })

  test.each<[unknown, ...string[]]>([
    [{ rate: 0, per: '1s' }, 'rate is invalid: 0', 'whole number'],
    [{ rate: -1, per: '1s' }, 'rate is invalid: -1'],
    [{ rate: Number.NaN, per: '1s' }, 'rate is invalid: NaN'],
    [{ rate: 1.5, per: '1s' }, 'rate is invalid: 1.5'],
    [{ rate: '5', per: '1s' }, "rate is invalid: '5'"],
    [{ rate: 2e9, per: '1s' }, 'rate is invalid: 2000000000'],
    [{ rate: 1, per: '1s', burst: 0 }, 'burst is invalid: 0'],
    [{ rate: 1, per: '365d', burst: 101 }, '100 years'],
    [{ rate: 1, per: 0 }, 'per is invalid: 0', 'above zero'],
    [{ rate: 1, per: -1 }, 'per'],
    [{ rate: 1, per: '1x' }, '1x'],
    [{ rate: 1 }, 'per is missing'],
    [{ per: '1s', rat: 5 }, 'rat (5) is not a field of a policy; did you mean rate?'],
    [{ evry: '1s' }, 'did you mean every?', 'Expected rate, per'],
    [{ rate: 1, per: '1s', startEmpty: 1 }, 'startEmpty is invalid: 1'],
    [{ rate: 1, per: '1s', burts: 2 }, 'burts', 'did you mean burst?'],
    [{ rate: 1, per: '1s', concurency: 2 }, 'did you mean concurrency?'],
    [{ rate: 1, per: '1s', colour: 'red' }, 'colour', 'Expected rate, per'],
    [{ rate: 1, per: '1s', window: 'sliding', max: 5 }, 'rate and window', 'one limit for each'],
    [{ rate: 1, per: '1s', max: 5 }, 'max (5) does not belong'],
    [{ rate: 1, per: '1s', timezone: 'UTC' }, 'timezone'],
    [{ max: 5, per: '1s' }, 'max needs a window'],
    [{ max: 5, windw: 'sliding', per: '1s' }, 'did you mean window?'],
    [{ per: '1s', concurrency: 1 }, 'per', 'does not belong'],
    [{ window: 'rolling', max: 5, per: '1s' }, "window is invalid: 'rolling'", "'sliding' or 'fixed'"],
    [{ window: 'sliding', max: 0, per: '1s' }, 'max is invalid: 0'],
    [{ window: 'sliding', max: 5, per: '1d', timezone: 'UTC' }, 'timezone', "window: 'fixed'"],
    [{ window: 'fixed', max: 5, per: '1m', timezone: 'UTC' }, 'timezone', "'1m'"],
    [{ window: 'fixed', max: 5, per: '1d', timezone: 'Europe/Atlantis' }, 'Europe/Atlantis', 'IANA'],
    [{ window: 'fixed', max: 5, per: '1d', timezone: 5 }, 'timezone is invalid: 5'],
    [{ window: 'fixed', max: 5, per: 'P1M' }, 'P1M'],
    [{ window: 'fixed', max: 5, per: '1s', guard: '600ms' }, 'guard', 'half'],
    [{ every: 0 }, 'every is invalid: 0'],
    [{ concurrency: -1 }, 'concurrency is invalid: -1'],
    [{ concurrency: 1.5 }, 'concurrency is invalid: 1.5'],
    [{ concurrency: 1, guard: '1s' }, 'guard'],
    [{ concurrency: 1, onLimit: 'queue' }, "onLimit is invalid: 'queue'", "'reschedule'"],
    [{ concurrency: 1, retries: 'never' }, "retries is invalid: 'never'"],
    [{ concurrency: 1, scope: 'host' }, "scope is invalid: 'host'"],
    [{ concurrency: 1, scope: 'worker', onLimit: 'drop' }, 'onLimit', "Expected 'wait'"],
    [{ concurrency: 1, onMissingKey: 'skip' }, "onMissingKey is invalid: 'skip'"],
    [{ concurrency: 1, version: -1 }, 'version is invalid: -1'],
    [{ concurrency: 1, maxWait: 'soon' }, 'maxWait'],
    [{}, 'has no rule'],
    [null, 'null'],
    [[], 'a list'],
    ['15/mn', "'15/mn'", 'character 4', 'did you mean min?'],
    [15, 'invalid: 15', "'10/s'"],
  ])('%j is refused, and the message says what to do', (policy, ...parts) => {
    const error = thrownBy(() => normalisePolicy(policy as Policy, 'limit crm'))
    expect(error.code).toBe('policy.invalid')
    for (const part of ['limit crm', ...parts]) expect(error.message).toContain(part)
  })
})

describe('a limit and its uses', () => {
  const crm = limit('crm', { rate: 15, per: '1m' })

  test('carry the name, the policy, the key and the weight', () => {
    const byTenant = (input: { tenant: string }): string => input.tenant
    const policy = normalisePolicy({ rate: 15, per: '1m' }, 'limit crm')
    const base = { limit: 'crm', policy, inline: null }
    expect(crm.name).toBe('crm')
    expect(useOf(crm)).toEqual({ ...base, key: { kind: 'none' }, weight: undefined })
    expect(useOf(crm.by(byTenant, { weight: 2 }))).toEqual({ ...base, key: { kind: 'fn', fn: byTenant }, weight: 2 })
    expect(useOf(crm.by('config.provider'))).toEqual({
      ...base,
      key: { kind: 'path', path: 'config.provider' },
      weight: undefined,
    })
    expect(useOf(crm.key('acme', { weight: 3 }))).toEqual({ ...base, key: { kind: 'value', value: 'acme' }, weight: 3 })
    expect(useOf(crm.weight(50))).toEqual({ ...base, key: { kind: 'none' }, weight: 50 })
  })

  test('are told from inline policies', () => {
    expect([crm, crm.key(1), crm.by(() => 'a')].every((use) => isLimitUse(use))).toBe(true)
    expect([null, 'crm', {}, { rate: 1, per: '1s' }].some((value) => isLimitUse(value))).toBe(false)
  })

  test('an inline policy is read under the name its task gives it', () => {
    const by = (input: { key: string }): string => input.key
    const use = inlineUse<{ key: string }>({ rate: 15, per: '1m', by, weight: 2 }, 'tenant.sync#2')
    expect(use).toMatchObject({ limit: 'tenant.sync#2', key: { kind: 'fn', fn: by }, weight: 2 })
    expect(use.inline).toEqual(normalisePolicy({ rate: 15, per: '1m' }, 'limit crm'))
    expect(() => inlineUse({ every: '1s', wieght: 2 } as Policy, 'x')).toThrow(
      expect.objectContaining({ code: 'policy.invalid' }),
    )
  })

  test.each([[''], ['a'.repeat(256)], ['a\0b'], [5]])('the name %j is refused', (name) => {
    expect(() => limit(name as string, { concurrency: 1 })).toThrow(expect.objectContaining({ code: 'policy.invalid' }))
    expect(limit('a'.repeat(255), { concurrency: 1 }).name).toHaveLength(255)
  })

  test.each([0, -1, 1.5, Number.NaN, Infinity, 2e9])('the weight %d is refused', (weight) => {
    const refused: unknown = expect.objectContaining({ code: 'limit.weight.invalid' })
    expect(() => crm.weight(weight)).toThrow(refused)
    expect(() => crm.key('a', { weight })).toThrow(refused)
    expect(() => inlineUse({ every: '1s', weight }, 'x')).toThrow(refused)
    expect(() => checkUnits(weight, 'job')).toThrow(refused)
  })

  test('a key or a path that can name nothing is refused at once', () => {
    const refused: unknown = expect.objectContaining({ code: 'limit.key.invalid' })
    for (const path of ['', 'a..b', '.a', 'a.']) expect(() => crm.by(path)).toThrow(refused)
    for (const key of ['', Number.NaN, null, {}]) expect(() => crm.key(key as string)).toThrow(refused)
  })
})

function thrownBy(action: () => unknown): SluiceError {
  try {
    action()
  } catch (error) {
    if (error instanceof SluiceError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}
