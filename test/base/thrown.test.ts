import { describe, expect, it } from 'vitest'
import { asError, codeOf, messageOf } from '../../src/base/thrown.ts'

const throwing = (name: string): Error =>
  Object.defineProperty(new Error('x'), name, {
    get() {
      throw new Error('getter')
    },
  })
const trapped = new Proxy(
  {},
  {
    getPrototypeOf() {
      throw new Error('trap')
    },
  },
)
const hostile: readonly [string, unknown][] = [
  ['an object without prototype', Object.create(null)],
  [
    'a toString that throws',
    {
      toString() {
        throw new Error('no')
      },
    },
  ],
  ['a name that is a symbol', Object.assign(new Error('x'), { name: Symbol('n') })],
  ['a message that throws', throwing('message')],
  ['a code that throws', throwing('code')],
  ['a stack that throws', throwing('stack')],
  ['a proxy', trapped],
  ['a symbol', Symbol('s')],
  ['nothing', undefined],
]

describe('what was thrown', () => {
  it('is the error itself where its name, message and code can be read', () => {
    const error = Object.assign(new TypeError('x'), { code: 'E' })
    expect(asError(error)).toBe(error)
    expect(messageOf(error)).toBe('x')
    expect(codeOf(error)).toBe('E')
  })

  it.each(hostile)('is made an error that can be read: %s', (_what, thrown) => {
    const error = asError(thrown)
    expect(typeof error.name).toBe('string')
    expect(typeof error.message).toBe('string')
    expect(typeof messageOf(thrown)).toBe('string')
    expect(codeOf(error)).toBeNull()
  })

  it('has a code where that is a text, of which the beginning is taken', () => {
    const codeIn = (code: unknown): string | null => codeOf(Object.assign(new Error('x'), { code }))
    for (const code of [7, '', Symbol('c'), null]) expect(codeIn(code)).toBeNull()
    expect(codeIn('E\0')).toBe('E\0')
    expect(codeIn('E'.repeat(1e6))).toBe('E'.repeat(255))
  })
})
