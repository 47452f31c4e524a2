import { describe, expect, it, test } from 'vitest'
import { jsonFaults, pathText } from '../../src/base/json-text.ts'
import * as fc from '../properties.ts'

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

describe('a text is broken exactly where JSON.parse refuses it', () => {
  const pieces = [
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"a"',
    '"b"',
    '"\\u00e9"',
    '"\\x"',
    '1',
    '-0',
    '01',
    '1.',
    '1e5',
    'true',
  ]
  const more = ['null', 'nul', ' ', '\n', '\t', '\u00a0', '"', '\\', "'a'", '"\n"', '//', 'NaN', '-']

  it('for any row of pieces', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces, ...more), { maxLength: 12 }), (parts) => {
        const text = parts.join('')
        expect(jsonFaults(text).brokenAt === null).toBe(isJson(text))
      }),
      { numRuns: 20_000 },
    )
  })

  it('for any JSON, and JSON that lacks or has one character more', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(), fc.string({ maxLength: 1 }), (value, place, char) => {
        const text = JSON.stringify(value, null, 1)
        const at = place % (text.length + 1)
        expect(jsonFaults(text)).toEqual({ brokenAt: null, repeated: [] })
        for (const changed of [text.slice(0, at) + text.slice(at + 1), text.slice(0, at) + char + text.slice(at)])
          expect(jsonFaults(changed).brokenAt === null).toBe(isJson(changed))
      }),
    )
  })
})

test.each([
  ['', 'line 1, column 1'],
  ['{', 'line 1, column 2'],
  ['{\n  "a": 1,\n}', 'line 3, column 1'],
  ['{\r\n  "a": x1\r\n}', 'line 2, column 8'],
  ['[1, 2] 3', 'line 1, column 8'],
  ['{"a" 1}', 'line 1, column 6'],
  ['["a", "b]', 'line 1, column 7'],
])('%j is broken at %s', (text, place) => {
  expect(jsonFaults(text).brokenAt).toBe(place)
})

test.each(['x', '\\n'])('a text may hold a string of many %j', (part) => {
  const string = `"${part.repeat(9_000_000)}"`
  expect(jsonFaults(`{"a":${string},"a":1}`)).toEqual({ brokenAt: null, repeated: [['a']] })
  expect(jsonFaults(string.slice(0, -1)).brokenAt).toBe('line 1, column 1')
})

test.each([
  ['{"a":1,"a":2}', ['a']],
  ['{"a":{"b":1},"c":[{"b":1},{"b":1,"b\\u0062":2,"b":3}]}', ['c[1].b']],
  ['{"limits":{"a/b":1,"a\\/b":2}}', ['limits."a/b"']],
  ['{"a":"a","b":["b","b"]}', []],
])('%s repeats %j', (text, paths) => {
  const { brokenAt, repeated } = jsonFaults(text)
  expect([brokenAt, repeated.map(pathText)]).toEqual([null, paths])
})
