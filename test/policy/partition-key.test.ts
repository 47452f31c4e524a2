import * as fc from '../properties.ts'
import { expect, test } from 'vitest'
import { partitionKey, readPath } from '../../src/policy/limits/partition-key.ts'

function keyOf(value: unknown): string {
  const found = partitionKey(value, 'unlimited', 'limit crm')
  return found.kind === 'key' ? found.key : 'missing'
}

test('a number and its text are one key; every other text is its own', () => {
  const texts = [
    'a@b.com',
    't:42',
    'acme corp',
    'ünï',
    'a.b',
    'x.',
    '_global',
    '42',
    '1000000',
    '9007199254740993',
    'true',
    ' ',
    '\u0001',
    '__proto__',
  ]
  expect(texts.map((text) => keyOf(text))).toEqual(texts)
  expect(keyOf(42)).toBe('42')
  expect(keyOf(-0)).toBe(keyOf(0))
  expect(keyOf(0)).toBe('0')
})

test('a text that no store can keep as it is has a key of its own, which every store can keep', () => {
  const odd = ['\0', 'a\0b', 'a\ud800', 'a\ud801', '\udc00b', `${'k'.repeat(2000)}\ud800`]
  const keys = odd.map((text) => keyOf(text))
  for (const key of keys) expect(key).toMatch(/^sha256:[0-9a-f]{64}$/)
  expect(new Set([...keys, keyOf('k'.repeat(2000))]).size).toBe(odd.length + 1)
  expect(odd.map((text) => keyOf(text))).toEqual(keys)
})

test('no key: not limited, an error, or the shared bucket, as the limit says', () => {
  for (const value of [null, undefined, '']) {
    expect(partitionKey(value, 'unlimited', 'limit crm')).toEqual({ kind: 'missing' })
    expect(partitionKey(value, 'shared', 'limit crm')).toEqual({ kind: 'key', key: '' })
    expect(() => partitionKey(value, 'fail', 'limit crm')).toThrow(
      expect.objectContaining({ code: 'limit.key.missing' }),
    )
  }
})

test('where the limit does not say: null and an empty text are unlimited, what is not there is refused', () => {
  for (const value of [null, '']) expect(partitionKey(value, undefined, 'limit crm')).toEqual({ kind: 'missing' })
  const refused: unknown = expect.objectContaining({ code: 'limit.key.missing' })
  expect(() => partitionKey(undefined, undefined, 'limit crm')).toThrow(refused)
  expect(() => partitionKey(undefined, undefined, 'limit crm')).toThrow('the key is undefined')
  expect(() => partitionKey(undefined, undefined, 'limit crm', 'config.provider')).toThrow(
    'limit crm: the input has no value at the path config.provider',
  )
})

test.each([
  [{}],
  [[]],
  [['a']],
  [Number.NaN],
  [Infinity],
  [true],
  [false],
  [1n],
  [Symbol('a')],
  [() => 'a'],
  [new Date(0)],
])('%s is refused', (value) => {
  expect(() => keyOf(value)).toThrow(expect.objectContaining({ code: 'limit.key.invalid' }))
  expect(() => keyOf(value)).toThrow('limit crm')
})

test('a key of 1,024 bytes is kept, a longer one is hashed, and the last letter still tells them apart', () => {
  const longest = 'k'.repeat(1024)
  expect(keyOf(longest)).toBe(longest)
  expect(keyOf('ü'.repeat(512))).toBe('ü'.repeat(512))
  expect(keyOf(`${longest}a`)).toMatch(/^sha256:[0-9a-f]{64}$/)
  expect(keyOf('ü'.repeat(513))).toMatch(/^sha256:/)
  expect(keyOf('k'.repeat(2000))).toBe(keyOf('k'.repeat(2000)))
  expect(keyOf(`${'k'.repeat(1999)}j`)).not.toBe(keyOf('k'.repeat(2000)))
})

test('two different keys are two buckets', () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 1 }),
      fc.string({ minLength: 1 }),
      (a, b) => (a === b) === (keyOf(a) === keyOf(b)),
    ),
  )
})

test('a path reads own properties, in objects and lists', () => {
  const input = { config: { provider: 'openai' }, items: [{ id: 7 }], none: null }
  expect(readPath(input, 'config.provider')).toBe('openai')
  expect(readPath(input, 'items.0.id')).toBe(7)
  expect(readPath(input, 'none.more')).toBeUndefined()
  expect(readPath(input, 'config.missing')).toBeUndefined()
  expect(readPath(input, 'constructor.name')).toBeUndefined()
  expect(readPath('text', 'length')).toBeUndefined()
})
