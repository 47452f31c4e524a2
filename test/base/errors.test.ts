import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { ERRORS } from '../../src/base/error-table.ts'
import { SluiceError } from '../../src/base/errors.ts'

/** Every paragraph in one line. */
function unwrapped(entry: string): string {
  return entry.replaceAll(/(?<!\n)\n(?!\n)/g, ' ')
}

const documented = new Map(
  readFileSync(new URL('../../docs/reference/errors.md', import.meta.url), 'utf8')
    .split(/^## /m)
    .slice(1)
    .map((entry) => [/^`(.+)`/.exec(entry)?.[1] ?? entry, unwrapped(entry)] as const),
)

/** All TypeScript below a folder, but for the paths that a pattern names. */
function codeBelow(folder: string, but: RegExp): string {
  const root = new URL(folder, import.meta.url)
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !but.test(path))
    .map((path) => readFileSync(new URL(path.replaceAll('\\', '/'), root), 'utf8'))
    .join('\n')
}

describe('the registry of errors', () => {
  test('and the documentation list the same codes in the same order', () => {
    expect([...documented.keys()]).toEqual(Object.keys(ERRORS))
  })

  test.each(Object.entries(ERRORS))(
    '%s is documented with its meaning, when it happens and its remedy',
    (code, entry) => {
      const text = documented.get(code)
      expect(text).toContain(entry.meaning)
      expect(text).toMatch(/^\*\*When:\*\* \S/m)
      expect(text).toContain(`**What to do:** ${entry.remedy}`)
    },
  )

  test('has only codes that the code gives', () => {
    const sources = codeBelow('../../src/', /^base[/\\](?:flow-)?errors\.ts$/)
    expect(Object.keys(ERRORS).filter((code) => !sources.includes(`'${code}'`))).toEqual([])
  })

  test('has only codes that a test names', () => {
    const tests = codeBelow('../', /node_modules/)
    // As text, or escaped in a pattern; `server.listen(` is a call.
    const isNamed = (code: string): boolean =>
      tests.includes(code.replaceAll('.', '\\.')) ||
      new RegExp(`\\b${code.replaceAll('.', '\\.')}\\b(?!\\()`).test(tests)
    expect(Object.keys(ERRORS).filter((code) => !isNamed(code))).toEqual([])
  })

  test('has only dotted lower-case codes', () => {
    for (const code of Object.keys(ERRORS)) expect(code).toMatch(/^[a-z]+(\.[a-z_]+)+$/)
  })
})

describe('SluiceError', () => {
  test('carries its code, its message and what was thrown below', () => {
    const cause = new Error('disk full')
    const error = new SluiceError('store.io', 'the store could not be written', { cause })
    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject({
      name: 'SluiceError',
      code: 'store.io',
      message: 'the store could not be written',
      cause,
    })
  })

  test('has no cause when none is given', () => {
    expect('cause' in new SluiceError('store.io', 'x')).toBe(false)
  })
})
