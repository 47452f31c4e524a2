// Comments are written in plain English: the subject first, the actor named. This test holds it for the words that
// tempt to leave the actor out.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'oxc-parser'
import { describe, expect, it } from 'vitest'

const FOLDERS = ['bench', 'dashboard/src', 'examples', 'scripts', 'src', 'test']

const BANNED: readonly RegExp[] = [
  /\b(whoever|whatever|nobody|anybody|somebody|anew|thereby)\b/i,
  /\b(told of|tells? of|hangs? on|goes by|comes to|came to)\b/i,
  /(?<!there )\b(is|are) no (?!longer|later|earlier|more|less|greater|larger|smaller|slower|faster)/i,
  /^\**\s*What\b(?!-)/,
]

const root = fileURLToPath(new URL('..', import.meta.url))

function commentsOf(path: string, source: string): readonly { readonly value: string; readonly start: number }[] {
  if (!path.endsWith('.sql')) return parseSync(path, source).comments
  return [...source.matchAll(/^ *--(.*(?:\n *--.*)*)/gm)].map(({ 1: value = '', index }) => ({ value, start: index }))
}

/** The comments of a file that use a banned word, as `line: comment`. */
function findings(path: string, source: string): string[] {
  return commentsOf(path, source)
    .filter(({ value }) => BANNED.some((word) => word.test(value.replaceAll(/\n\s*(\*|\/\/|--)?\s*/g, ' '))))
    .map(({ value, start }) => `${path}:${source.slice(0, start).split('\n').length} ${value.trim()}`)
}

function filesIn(folder: string): string[] {
  return readdirSync(`${root}/${folder}`, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(ts|mjs|sql)$/.test(path) && !path.includes('node_modules'))
    .toSorted()
    .map((path) => `${folder}/${path}`)
}

describe('comments', () => {
  it.each(FOLDERS)('name the actor in %s', (folder) => {
    const files = filesIn(folder)
    expect(files).not.toEqual([])
    expect(files.flatMap((path) => findings(path, readFileSync(`${root}/${path}`, 'utf8')))).toEqual([])
  })

  it.each([
    '// Whoever is first goes on.',
    '/** A bucket that nobody has used. */',
    '/** What a lane costs. */',
    '/* It is no valid name. */',
    '/**\n * The engine is told\n * of it.\n */',
  ])('are found when they read %s', (comment) => {
    expect(findings('a.ts', `${comment}\nconst a = 1`)).toHaveLength(1)
  })

  it('are found in SQL', () => {
    expect(findings('a.sql', 'SELECT 1;\n-- Each bucket that\n-- nobody has used.\nSELECT 2;')).toHaveLength(1)
  })

  it.each(['// The lease is no longer held.', '/** What-if: an estimate. */', "const a = 'nobody'"])(
    'may read %s',
    (comment) => {
      expect(findings('a.ts', `${comment}\nconst b = 1`)).toEqual([])
    },
  )
})
