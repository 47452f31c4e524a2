import { describe, expect, test } from 'vitest'
import { uniqueKey, type Unique } from '../../src/jobs/unique-key.ts'

interface Input {
  readonly tenant: string
}
const read = (unique: unknown, tenant = 'acme') => uniqueKey(unique as Unique<Input>, { tenant }, 'tenant.sync')
const keyOf = (key: string): string => read(key)?.key ?? ''

describe('uniqueKey', () => {
  test('is null without the option', () => {
    expect(read(undefined)).toBeNull()
  })

  test('ignores a second job, without end, unless told otherwise', () => {
    const defaults = { key: 'tenant.sync:acme', onConflict: 'ignore', withinUs: null, states: null }
    expect(read('acme')).toEqual(defaults)
    expect(read({ key: 'acme' })).toEqual(defaults)
  })

  test('takes the key from the input, and what else is given', () => {
    const unique = {
      key: (input: Input) => input.tenant,
      onConflict: 'replace',
      within: '1m',
      states: ['available', 'active'],
    }
    expect(read(unique, 'zeta')).toEqual({
      key: 'tenant.sync:zeta',
      onConflict: 'replace',
      withinUs: 60_000_000,
      states: ['available', 'active'],
    })
  })

  test('keeps the keys of different tasks apart', () => {
    const a = uniqueKey('b:c', undefined, 'a')
    const b = uniqueKey('c', undefined, 'a.b')
    expect(a?.key).not.toBe(b?.key)
  })

  test('keeps a key of 1 KiB as it is and a longer one as its hash, counted in bytes', () => {
    expect(keyOf('x'.repeat(1_024))).toBe(`tenant.sync:${'x'.repeat(1_024)}`)
    expect(keyOf('x'.repeat(1_025))).toMatch(/^tenant\.sync:sha256:[0-9a-f]{64}$/)
    expect(keyOf('ü'.repeat(513))).toMatch(/^tenant\.sync:sha256:[0-9a-f]{64}$/)
  })

  test('tells long keys apart by their last letter', () => {
    const long = 'x'.repeat(2_000)
    expect(keyOf(`${long}a`)).toBe(keyOf(`${long}a`))
    expect(keyOf(`${long}a`)).not.toBe(keyOf(`${long}b`))
  })

  test('never mistakes a key that looks hashed for one that is', () => {
    const hashed = keyOf('x'.repeat(2_000)).slice('tenant.sync:'.length)
    expect(keyOf(hashed)).not.toBe(`tenant.sync:${hashed}`)
  })

  test('stores no NUL and no lone surrogate, and still tells such keys apart', () => {
    const keys = ['a\0b', 'a\0c', '\ud800', '\ud801', '\ufffd', '😀'].map(keyOf)
    expect(new Set(keys).size).toBe(keys.length)
    for (const key of keys) expect(key).not.toMatch(/[\0\p{Surrogate}]/u)
    expect(keys.at(-1)).toBe('tenant.sync:😀')
  })

  test.each([
    ['', 'empty'],
    [{ key: '' }, 'empty'],
    [{ key: () => '' }, 'empty'],
    [{ key: 5 }, 'of type number'],
    [{ key: () => undefined }, 'of type undefined'],
    [{}, 'of type undefined'],
    [5, 'Expected a key'],
    [null, 'Expected a key'],
    [{ key: 'a', onConflict: 'skip' }, '"skip"'],
    [{ key: 'a', within: 0 }, 'within is invalid: zero'],
    [{ key: 'a', states: [] }, 'at least one state'],
    [{ key: 'a', states: 'active' }, 'list'],
    [{ key: 'a', states: ['running'] }, 'states is invalid: "running"'],
    [{ key: 'a', onconflict: 'reject' }, '"onconflict"'],
  ])('refuses %o', (unique, why) => {
    expect(() => read(unique)).toThrow(
      expect.objectContaining({
        code: 'unique.invalid',
        message: expect.stringMatching(new RegExp(`^unique of task tenant\\.sync.*${why}`)) as string,
      }),
    )
  })

  test('refuses a duration that cannot be read', () => {
    expect(() => read({ key: 'a', within: '1x' })).toThrow(expect.objectContaining({ code: 'duration.invalid' }))
  })

  test('reports a key function that throws, with its error as the cause', () => {
    const cause = new TypeError('no tenant')
    const key = (): never => {
      throw cause
    }
    expect(() => read({ key })).toThrow(
      expect.objectContaining({
        code: 'unique.invalid',
        message: expect.stringContaining('no tenant') as string,
        cause,
      }),
    )
  })
})
