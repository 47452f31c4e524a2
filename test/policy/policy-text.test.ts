import { describe, expect, test } from 'vitest'
import { input, limit, task, type Policy } from '../../src/exports/index.ts'
import { policyInWords } from '../../src/policy/limits/policy-words.ts'
import { SluiceError } from '../../src/base/errors.ts'
import { useOf } from '../../src/policy/limits/define.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { applyOverride, changeInText, isOfKind } from '../../src/policy/limits/override.ts'
import * as fc from '../properties.ts'

const read = (policy: Policy | string): object => normalisePolicy(policy, 'limit crm')

describe('a policy as text', () => {
  test.each<[string, Policy]>([
    ['100/m', { rate: 100, per: '1m' }],
    ['100/min', { rate: 100, per: '1m' }],
    ['100 / 5 min', { rate: 100, per: '5m' }],
    ['100/s', { rate: 100, per: '1s' }],
    ['1000 per hour', { rate: 1000, per: '1h' }],
    ['1,000 per 1 h', { rate: 1000, per: '1h' }],
    ['1 per 200ms', { rate: 1, per: '200ms' }],
    ['3 per 1.5 min', { rate: 3, per: '90s' }],
    ['5/2 weeks', { rate: 5, per: 'P2W' }],
    ['100/PT1M', { rate: 100, per: '1m' }],
    ['15/min burst 5', { rate: 15, per: '1m', burst: 5 }],
    ['15/min, burst 5, 4 at once, guard 20ms', { rate: 15, per: '1m', burst: 5, concurrency: 4, guard: '20ms' }],
    ['15/min sliding', { window: 'sliding', max: 15, per: '1m' }],
    ['15 in any 1 min', { window: 'sliding', max: 15, per: '1m' }],
    ['15/min sliding no guard', { window: 'sliding', max: 15, per: '1m', guard: 0 }],
    ['15/min fixed', { window: 'fixed', max: 15, per: '1m' }],
    ['15 in each 10 s', { window: 'fixed', max: 15, per: '10s' }],
    ['15/day fixed', { window: 'fixed', max: 15, per: '24h' }],
    ['15/day fixed in Europe/Paris', { window: 'fixed', max: 15, per: '1d', timezone: 'Europe/Paris' }],
    ['15 in each month of Etc/GMT+5', { window: 'fixed', max: 15, per: 'P1M', timezone: 'Etc/GMT+5' }],
    ['every 200ms', { every: '200ms' }],
    ['one every 500 µs', { every: 0.5 }],
    ['100/m every 100ms', { rate: 100, per: '1m', every: '100ms' }],
    ['5 at once', { concurrency: 5 }],
    ['paused', { concurrency: 0 }],
    ['  100/m  ', { rate: 100, per: '1m' }],
  ])('%s is %j', (text, policy) => {
    expect(read(text)).toEqual(read(policy))
  })

  test.each([
    ['', 1, 'the end of the text'],
    ['100', 4, 'the end of the text', "Expected '/', per"],
    ['100/', 5, 'the end of the text', 'Expected ms, s, min'],
    ['100/mn', 5, "'mn' is not a unit of time", 'did you mean min?'],
    ['100/Min', 5, 'did you mean min?'],
    ['100/hurs', 5, 'did you mean hours?'],
    ['100 pre min', 5, "'pre' does not fit", 'did you mean per?'],
    ['15/min brust 5', 8, 'did you mean burst?'],
    ['15/min burst', 13, 'the end of the text is not a whole number'],
    ['15/min burst 1.5', 14, "'1.5' is not a whole number"],
    ['1.5/min', 1, "'1.5' does not fit"],
    ['-5/min', 1, "'-' does not fit"],
    ['10,00/min', 3, "',' does not fit"],
    ['1000/month', 6, 'no fixed length'],
    ['15 in each 2 days of UTC', 12, 'hour, day, week or month'],
    ['15/day fixed in', 16, 'not a time zone'],
    ['sliding', 1, 'has no rate before it'],
    ['15/min sliding fixed', 16, 'sliding already'],
    ['15/min 100/h', 8, 'second rate'],
    ['5 at once 6 at once', 11, 'sets concurrency again'],
    ['5 at ones', 6, 'Expected once'],
    ['100/m,', 7, 'the end of the text'],
    ['100/m; drop', 6, "';' does not fit"],
    ['x'.repeat(201), 201, 'too long'],
  ])('%j is refused at character %i', (text, place, ...parts) => {
    const error = thrownBy(() => read(text))
    expect(error.code).toBe('policy.invalid')
    for (const part of ['limit crm', `at character ${place}:`, ...parts]) expect(error.message).toContain(part)
  })

  test.each([
    ['0/m', "policy '0/m': rate is invalid: 0"],
    ['15/min sliding burst 5', 'burst (5) does not belong'],
    ['5/0s', 'per is invalid'],
    ['15 in each day of Europe/Atlantis', 'Europe/Atlantis'],
    ['5 at once guard 5ms', 'guard lengthens a period'],
  ])('%s is refused by its values', (text, part) => {
    expect(thrownBy(() => read(text)).message).toContain(part)
  })

  test('stands in an object beside options, which may not repeat it', () => {
    const policy: Policy = { policy: '100/m', onLimit: 'drop', concurrency: 3, guard: '5ms' }
    expect(read(policy)).toEqual(read({ rate: 100, per: '1m', onLimit: 'drop', concurrency: 3, guard: '5ms' }))
    for (const beside of [{ rate: 5 }, { burst: 5 }, { per: '1m' }, { every: '1s' }])
      expect(thrownBy(() => read({ policy: '100/m', ...beside } as unknown as Policy)).message).toContain(
        'stands beside',
      )
    expect(thrownBy(() => read({ policy: '100/m 4 at once', concurrency: 3 })).message).toContain('stands beside')
    expect(thrownBy(() => read({ policy: 5 } as unknown as Policy)).message).toContain('policy is invalid: 5')
    expect(thrownBy(() => read({ policy: '100/m', onLimt: 'drop' } as unknown as Policy)).message).toContain('onLimit')
  })

  test('defines a limit, and stands inline in a task', () => {
    expect(useOf(limit('crm', '15/min burst 5')).policy).toEqual(read({ rate: 15, per: '1m', burst: 5 }))
    const schema = input<{ id: string }>()
    const limits = ['100/m', { policy: '5 at once', by: (job: { id: string }) => job.id }]
    expect(() => task('tenant.sync', schema, { limits, run: () => null })).not.toThrow()
    expect(thrownBy(() => task('tenant.sync', { limits: ['100/x'], run: () => null })).message).toContain(
      "limit tenant.sync: the policy '100/x' is invalid at character 5",
    )
  })
})

describe('an override as text', () => {
  test.each<[Policy | string, string, Policy | string]>([
    ['10/m', '20/m', '20/m'],
    ['10/m burst 3', '20/h', '20/h burst 3'],
    ['10/m burst 3', '20/h burst 2', '20/h burst 2'],
    ['10 in any 1 min', '20/m', '20 in any 1 min'],
    ['10 in any 1 min', '20 in any 2 min', '20 in any 2 min'],
    ['10 in each day of UTC', '20/h', '20 in each hour of UTC'],
    ['10 in each day of UTC', '20 in each day of UTC', '20 in each day of UTC'],
    ['10/m every 1s', 'every 2s', '10/m every 2s'],
    ['10/m', '5 at once', '10/m 5 at once'],
    ['10 in any 1 min', 'no guard', '10 in any 1 min no guard'],
  ])('of %s by %s means %s', (policy, text, meant) => {
    const from = normalisePolicy(policy, 'limit crm')
    const change = changeInText(text, from, 'limit crm')
    expect(isOfKind(from, change)).toBe(true)
    expect(applyOverride(from, change, 'limit crm')).toEqual(read(meant))
  })

  test.each([
    ['10/m', '10 in any 1 min', 'cannot change'],
    ['10 in any 1 min', '10 in each 1 min', 'cannot change window'],
    ['10 in each day of UTC', '10 in each day of Europe/Paris', 'cannot change window'],
    ['5 at once', '10/m', 'cannot change'],
    ['10/m', 'every 1s', 'cannot change every'],
  ])('of %s by %s has another kind, and is refused', (policy, text, part) => {
    const from = normalisePolicy(policy, 'limit crm')
    const change = changeInText(text, from, 'limit crm')
    expect(isOfKind(from, change)).toBe(false)
    expect(thrownBy(() => applyOverride(from, change, 'limit crm')).message).toContain(part)
  })
})

describe('the words of a policy', () => {
  const count = fc.integer({ min: 1, max: 1_000_000 })
  const written = count.chain((each) => fc.constantFrom(String(each), each.toLocaleString('en-US')))
  const length = fc.oneof(
    fc.constantFrom('1 s', 's', 'min', 'hour', '1 d', 'week', 'PT2H'),
    fc
      .tuple(
        fc.integer({ min: 1, max: 10_000 }),
        fc.constantFrom('µs', 'ms', 's', 'min', 'h'),
        fc.constantFrom('', ' '),
      )
      .map(([number, unit, space]) => `${number}${space}${unit}`),
  )
  const pace = fc.oneof(
    fc
      .tuple(written, fc.constantFrom('/', ' / ', ' per '), length, fc.option(written))
      .map(([rate, link, per, burst]) => `${rate}${link}${per}${burst === null ? '' : ` burst ${burst}`}`),
    fc.tuple(written, fc.constantFrom(' in any ', ' in each '), length).map((parts) => parts.join('')),
    fc.tuple(written, length, fc.constantFrom('sliding', 'fixed')).map(([max, per, kind]) => `${max}/${per} ${kind}`),
    fc
      .tuple(
        written,
        fc.constantFrom('hour', 'day', 'week', 'month'),
        fc.constantFrom('UTC', 'America/Argentina/Salta'),
      )
      .map(([max, unit, zone]) => `${max} in each ${unit} of ${zone}`),
  )
  const text = fc
    .tuple(
      fc.option(pace),
      fc.option(length.map((each) => `every ${each}`)),
      fc.option(
        fc.oneof(
          written.map((each) => `${each} at once`),
          fc.constant('paused'),
        ),
      ),
      fc.constantFrom(' ', ', '),
    )
    .map(([first, second, third, link]) => [first, second, third].filter((part) => part !== null).join(link))
    .filter((each) => each !== '')

  test('are a text of the same policy', () => {
    fc.assert(
      fc.property(text, (each) => {
        let policy
        try {
          policy = normalisePolicy(each, 'limit crm')
        } catch (error) {
          // A burst that takes over 100 years to refill.
          expect((error as SluiceError).message).toContain('100 years')
          return
        }
        const words = policyInWords(policy)
        const again = normalisePolicy(words, 'limit crm')
        expect(policyInWords(again)).toBe(words)
        // The default guard of a sliding window becomes the guard that the words name.
        if (policy.defaultGuard) expect(again.rule).toEqual(policy.rule)
        else expect(again).toEqual(policy)
      }),
    )
  })

  test('any other text is refused by its code, with a place in it', () => {
    const scrap = fc.constantFrom(
      '1',
      '5,0',
      '/',
      'm',
      'per',
      ' ',
      'burst',
      'at',
      'once',
      'in',
      'any',
      'of',
      'µs',
      '.',
      'P1D',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(scrap).map((each) => each.join('')),
        ),
        (each) => {
          try {
            normalisePolicy(each, 'limit crm')
          } catch (error) {
            expect(error).toBeInstanceOf(SluiceError)
            const { code, message } = error as SluiceError
            expect(code).toBe('policy.invalid')
            const place = /at character (\d+):/.exec(message)
            if (place) expect(Number(place[1])).toBeLessThanOrEqual(each.length + 1)
          }
        },
      ),
    )
  })
})

function thrownBy(call: () => unknown): SluiceError {
  try {
    call()
  } catch (error) {
    if (error instanceof SluiceError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}
