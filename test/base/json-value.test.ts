import * as fc from '../properties.ts'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { type JsonValue, type Kept, toJsonText } from '../../src/base/json-value.ts'
import { task } from '../../src/exports/index.ts'

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

  test('refuses a promise, which JSON would write as an empty object', () => {
    expect(() => toJsonText(Promise.resolve(1), 'the input')).toThrow(
      fault('payload.unserialisable', /^the input cannot be written as JSON: it is a promise\. Await it first/),
    )
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

/** A value after JSON, as the type says. */
const kept = <T>(value: T): Kept<T> => JSON.parse(JSON.stringify(value)) as Kept<T>

class Account {
  readonly id = 'a'
  name?: string
  greet(): string {
    return this.name ?? this.id
  }
}

interface Tree {
  readonly at: Date
  readonly kids: readonly Tree[]
}

interface KeptTree {
  readonly at: string
  readonly kids: readonly KeptTree[]
}

type Own = string | undefined | Own[] | { [key: string]: Own }
type KeptOwn = string | (KeptOwn | null)[] | { [key: string]: KeptOwn }

declare const BRAND: unique symbol
type Id = string & { readonly [BRAND]: 'id' }

describe('the type Kept says what comes back', () => {
  test('of a member that may be undefined: it may be missing', () => {
    const found = kept<{ a: 'x' | undefined; b: number }>({ a: undefined, b: 1 })
    expect('a' in found).toBe(false)
    expectTypeOf(found).toEqualTypeOf<{ a?: 'x'; b: number }>()
    expectTypeOf<Kept<{ a?: number; b?: string | undefined }>>().toEqualTypeOf<{ a?: number; b?: string }>()
    expectTypeOf<Kept<{ readonly a?: Date }>>().toEqualTypeOf<{ readonly a?: string }>()
    expectTypeOf<Kept<{ a: undefined; b: 1 }>>().toEqualTypeOf<{ b: 1 }>()
  })

  test('of undefined in a list: null', () => {
    const found = kept<(string | undefined)[]>(['a', undefined])
    expect(found).toEqual(['a', null])
    expectTypeOf(found).toEqualTypeOf<(string | null)[]>()
    expectTypeOf<Kept<[number, () => void, symbol | string]>>().toEqualTypeOf<[number, null, null | string]>()
  })

  test('of undefined at the top: undefined', () => {
    expectTypeOf<Kept<undefined>>().toEqualTypeOf<undefined>()
    expectTypeOf<Kept<void>>().toEqualTypeOf<undefined>()
    expectTypeOf<Kept<string | undefined>>().toEqualTypeOf<string | undefined>()
    expectTypeOf<Kept<Date | void>>().toEqualTypeOf<string | undefined>()
  })

  test('of dates and whatever has toJSON, which JSON calls once', () => {
    const price = { cents: 5, toJSON: () => ({ at: new Date(0), cents: 5 }) }
    expect(kept(price)).toEqual({ at: '1970-01-01T00:00:00.000Z', cents: 5 })
    expectTypeOf<Kept<typeof price>>().toEqualTypeOf<{ at: string; cents: number }>()
    expectTypeOf<Kept<{ at: Date; list: [Date, ...Date[]] }>>().toEqualTypeOf<{
      at: string
      list: [string, ...string[]]
    }>()
    expectTypeOf<Kept<{ toJSON(key: string): number }>>().toEqualTypeOf<number>()
  })

  test('of functions and symbols: they are gone, and a member that may be one may be missing', () => {
    const found = kept({ run: () => 1, [Symbol.iterator]: 1, a: 1, b: Symbol('b') })
    expect(found).toEqual({ a: 1 })
    expectTypeOf(found).toEqualTypeOf<{ a: number }>()
    expectTypeOf<Kept<{ a: string | (() => void); b?: () => void; c: typeof Account }>>().toEqualTypeOf<{
      a?: string
    }>()
    expectTypeOf<Kept<() => void>>().toEqualTypeOf<never>()
    expectTypeOf<Kept<bigint>>().toEqualTypeOf<never>()
    expectTypeOf<Kept<{ a: bigint }>>().toEqualTypeOf<{ a: never }>()
  })

  test('of instances: their fields', () => {
    const found = kept(new Account())
    expect(found).toEqual({ id: 'a' })
    expectTypeOf(found).toEqualTypeOf<{ readonly id: 'a'; name?: string }>()
    expectTypeOf<Kept<{ m: Map<string, Date>; s: Set<1> }>>().toEqualTypeOf<{
      m: Record<string, never>
      s: Record<string, never>
    }>()
  })

  test('of literals, unions, brands and tuples: the same', () => {
    expectTypeOf<Kept<'a' | 1 | true | null>>().toEqualTypeOf<'a' | 1 | true | null>()
    type Shape = { kind: 'circle'; r: number } | { kind: 'dot'; at: Date | null }
    expectTypeOf<Kept<Shape>>().toEqualTypeOf<{ kind: 'circle'; r: number } | { kind: 'dot'; at: string | null }>()
    expectTypeOf<Kept<Id>>().toEqualTypeOf<Id>()
    expectTypeOf<Kept<{ id: Id; size: 1 | 2 }>>().toEqualTypeOf<{ id: Id; size: 1 | 2 }>()
    expectTypeOf<Kept<readonly [1, 'a', Date?]>>().toEqualTypeOf<readonly [1, 'a', (string | null)?]>()
    expectTypeOf<Kept<readonly { a?: Date }[]>>().toEqualTypeOf<readonly { a?: string }[]>()
  })

  test('of an unknown kind: the same', () => {
    expectTypeOf<Kept<unknown>>().toEqualTypeOf<unknown>()
    expectTypeOf<Kept<never>>().toEqualTypeOf<never>()
    expectTypeOf<Kept<{ a: unknown; b: unknown[] }>>().toEqualTypeOf<{ a?: unknown; b: unknown[] }>()
  })

  test('of records, nested and recursive types, and JSON itself', () => {
    expectTypeOf<Kept<Record<string, Date | undefined>>>().toEqualTypeOf<Record<string, string>>()
    expectTypeOf<Kept<{ [id: `user-${string}`]: Date; a: 1 }>>().toEqualTypeOf<{
      [id: `user-${string}`]: string
      a: 1
    }>()
    expectTypeOf<Kept<{ a: { b: [{ c?: Date }] } }>>().toEqualTypeOf<{ a: { b: [{ c?: string }] } }>()
    expectTypeOf<Kept<Tree>>().toExtend<KeptTree>()
    expectTypeOf<KeptTree>().toExtend<Kept<Tree>>()
    const json: JsonValue = { a: [1, null, { b: 'c' }] }
    const after: JsonValue = kept(json)
    const before: Kept<JsonValue> = json
    expect([after, before]).toEqual([json, json])
  })

  test('of a recursive type with undefined in lists and members', () => {
    const own = kept<Own>(['a', undefined, { b: undefined, c: ['d'] }])
    expect(own).toEqual(['a', null, { c: ['d'] }])
    const after: KeptOwn | undefined = own
    const before: Kept<Own> = after
    expect(before).toBe(own)
  })

  test('in job.result()', () => {
    const found = task('kept.result', { run: () => ({ at: new Date(0), a: undefined as 'x' | undefined }) })
    const never = task('kept.nothing', { run: () => {} })
    type Result<J extends { result(): Promise<unknown> }> = Awaited<ReturnType<J['result']>>
    expectTypeOf<Result<Awaited<ReturnType<typeof found.enqueue>>>>().toEqualTypeOf<{ at: string; a?: 'x' }>()
    expectTypeOf<Result<Awaited<ReturnType<typeof never.enqueue>>>>().toEqualTypeOf<undefined>()
  })
})
