import { expect, test } from 'vitest'
import { didYouMean, nearest } from '../../src/base/nearest.ts'
import { checkOptions, quote, show } from '../../src/base/options.ts'

test('known options are taken, whatever their values', () => {
  expect(() => checkOptions({ weight: undefined }, ['weight'], '.by()')).not.toThrow()
  expect(() => checkOptions({}, ['weight'], '.by()')).not.toThrow()
})

test.each([
  [{ wieght: 2 }, 'did you mean weight?'],
  [{ colour: 2 }, 'Expected weight, until'],
  [{ retries: 2 }, 'did you mean retry?'],
  [{ constructor: 2 }, 'Expected weight, until'],
  [null, 'is invalid: null'],
  [undefined, 'is invalid: undefined'],
  ['weight', "is invalid: 'weight'"],
  [['weight'], 'is invalid: a list'],
])('%j is refused, and the message says what was meant', (value, part) => {
  const check = (): void =>
    checkOptions(value, ['weight', 'until'], 'limit crm: .by()', { aliases: { retries: 'retry' } })
  expect(check).toThrow(expect.objectContaining({ code: 'option.invalid' }))
  expect(check).toThrow('limit crm: .by()')
  expect(check).toThrow(part)
})

test('a long text is cut, and its length tells it from another with the same beginning', () => {
  const start = 'a'.repeat(60)
  expect(show(start)).toBe(`'${start}'`)
  expect(show(`${start}b`)).toBe(`'${start}…' (61 characters)`)
  expect(quote(`${start}bc`)).toBe(`"${start}…" (62 characters)`)
  expect(quote(`${'a'.repeat(59)}😀`)).toBe(`"${'a'.repeat(59)}…" (61 characters)`)
})

test('the nearest name is told where one is near', () => {
  expect(nearest('untill', ['until', 'by'])).toBe('until')
  expect(nearest('limts', ['limits', 'retry'])).toBe('limits')
  expect(nearest('xy', ['by', 'at'])).toBe('by')
  expect(nearest('q', ['by', 'at'])).toBeNull()
  expect(nearest('x'.repeat(100_000), ['until'])).toBeNull()
})

test('the refusal of an unknown name goes on with the nearest one, or with a new sentence', () => {
  expect(didYouMean('untill', ['until', 'by'])).toBe('; did you mean until? ')
  expect(didYouMean('before', ['until', 'by'], 'until')).toBe('; did you mean until? ')
  expect(didYouMean('before', ['until', 'by'])).toBe('. ')
})
