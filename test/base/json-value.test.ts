import * as fc from '../properties.ts'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { toJsonText, type Json } from '../../src/base/json-value.ts'

const fault = (code: string, message: RegExp): unknown =>
  expect.objectContaining({ code, message: expect.stringMatching(message) as string })

describe('toJsonText', () => {
  test('writes what JSON writes', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(toJsonText(value, 'x')).toBe(JSON.stringify(value))
      }),
    )
  })

  test.each([
    [undefined, 'null'],
    [{ toJSON: () => undefined }, 'null'],
    [Number.NaN, 'null'],
    [{ a: undefined, b: () => 1, c: Infinity }, '{"c":null}'],
    [new Date(0), '"1970-01-01T00:00:00.000Z"'],
    ['\u0000', String.raw`"\u0000"`],
    ['\ud800', String.raw`"\ud800"`],
  ])('writes %o as %s', (value, text) => {
    expect(toJsonText(value, 'x')).toBe(text)
  })

  test('names the place of a BigInt', () => {
    const value = { tenants: [{ id: 1 }, { 'odd key': { count: 5n } }] }
    expect(() => toJsonText(value, 'the input')).toThrow(
      fault('payload.unserialisable', /^the input .*tenants\[1\]\["odd key"\]\.count is a BigInt/),
    )
    expect(() => toJsonText(5n, 'the input')).toThrow(fault('payload.unserialisable', /the value itself is a BigInt/))
  })

  test('names both ends of a cycle, and takes a value used twice for no cycle', () => {
    const shared = { n: 1 }
    const order: Record<string, unknown> = { first: shared, second: shared, lines: [{}] }
    expect(toJsonText(order, 'x')).toBe('{"first":{"n":1},"second":{"n":1},"lines":[{}]}')
    order['lines'] = [{ order }]
    expect(() => toJsonText({ order }, 'the input')).toThrow(
      fault('payload.unserialisable', /order\.lines\[0\]\.order leads back to order/),
    )
  })

  test('reports the error of a toJSON that throws, as the cause too', () => {
    const cause = new Error('no disk')
    const value = {
      before: {},
      a: {
        toJSON(): never {
          throw cause
        },
      },
    }
    expect(() => toJsonText(value, 'the result')).toThrow(
      expect.objectContaining({
        code: 'payload.unserialisable',
        message: expect.stringMatching(/no disk/) as string,
        cause,
      }),
    )
  })

  test.each([() => 1, Symbol('s')])('refuses %o at the top', (value) => {
    expect(() => toJsonText(value, 'the result')).toThrow(
      fault('payload.unserialisable', /^the result cannot be written as JSON: it is a (function|symbol)/),
    )
  })

  test('refuses a value nested too deeply, without failing on the way to say so', () => {
    let deep: unknown = []
    for (let level = 0; level < 100_000; level++) deep = [deep]
    expect(() => toJsonText(deep, 'the input')).toThrow(fault('payload.unserialisable', /^the input cannot/))
  })

  test('counts bytes of UTF-8, not characters, and states both sizes', () => {
    expect(toJsonText('ü'.repeat(4), 'x', 10)).toBe('"üüüü"')
    expect(() => toJsonText('ü'.repeat(5), 'the input', 10)).toThrow(
      fault('payload.too_large', /^the input is too large: 12 bytes as JSON. Expected at most 10/),
    )
    expect(() => toJsonText('€'.repeat(3), 'x', 10)).toThrow(fault('payload.too_large', /11 bytes/))
    expect(toJsonText('x'.repeat(8), 'x', 10)).toHaveLength(10)
  })

  test('allows 1 MiB by default', () => {
    expect(toJsonText('x'.repeat(1_048_574), 'x')).toHaveLength(1_048_576)
    expect(() => toJsonText('x'.repeat(1_048_575), 'x')).toThrow(fault('payload.too_large', /1048577 .* 1048576/))
  })
})

test('the type Json says what comes back', () => {
  expectTypeOf<Json<{ at: Date; n: number; f(): void; list: [Date, string] }>>().toEqualTypeOf<{
    at: string
    n: number
    list: [string, string]
  }>()
  expectTypeOf<Json<bigint>>().toEqualTypeOf<never>()
  expectTypeOf<Json<unknown>>().toEqualTypeOf<unknown>()
})
