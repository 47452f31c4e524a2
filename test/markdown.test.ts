// The promises of Markdown about the repository: the files that it names exist, and its lines can be read beside code.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const COLUMNS = 100
/** Folders that a path in prose may begin with: those of the repository, and those of src/, which prose leaves out. */
const FOLDERS = ['', 'src/']
/** Files with longer lines. Take a file off once it is wrapped; put none on. */
const WIDE = new Set(['keyed-limits.md', 'step-limits.md'])

/** Only a build has it. */
const BUILT = 'dist/'

/** Not ours, or not written by hand. */
const FOREIGN = /(^|\/)(node_modules|dist|suites)\//

const FILES = globSync('**/*.md', { cwd: ROOT, exclude: (path) => FOREIGN.test(`${path}/`) })
  .filter((path) => !FOREIGN.test(path))
  .toSorted()

/** Every relative target of a link, without its anchor. */
function links(text: string): string[] {
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !/^([a-z]+:|#)/.test(target))
    .map((target) => target.replace(/#.*$/, ''))
}

/** Every path in the text that names a file by its extension or a folder by its slash, from the repository's root or from src/. */
function paths(text: string, isFolder: (name: string) => boolean): string[] {
  return [...text.matchAll(/(?<![\w/.:@*-])([\w.-]+\/[\w./{},*-]*)/g)]
    .map(([, path = '']) => path.replace(/[.,]+$/, ''))
    .filter((path) => /\/$|\.(ts|mts|mjs|js|md|sql|json|txt|py|sh|go)$/.test(path))
    .filter((path) => !path.startsWith(BUILT) && isFolder(path.split('/')[0] ?? ''))
}

/** `a/{b,c}.ts` is two paths. */
function spread(path: string): string[] {
  const [whole, options] = /\{([^{}]*)\}/.exec(path) ?? []
  if (whole === undefined || options === undefined) return [path]
  return options.split(',').flatMap((option) => spread(path.replace(whole, option)))
}

function exists(path: string): boolean {
  return path.includes('*') ? globSync(path, { cwd: ROOT }).length > 0 : existsSync(join(ROOT, path))
}

const isFolder = (name: string): boolean => !/^\.+$/.test(name) && FOLDERS.some((from) => exists(`${from}${name}/`))
const isThere = (path: string): boolean => spread(path).every((one) => FOLDERS.some((from) => exists(`${from}${one}`)))

/** Lines that could be wrapped: neither rows of a table, nor code, nor one long word. */
function wideLines(text: string): string[] {
  return text
    .replace(/^```[^]*?^```/gm, '')
    .split('\n')
    .filter((line) => line.length > COLUMNS && !line.startsWith('|') && /\s/.test(line.slice(0, COLUMNS).trim()))
}

describe.each(FILES)('%s', (file) => {
  const text = readFileSync(join(ROOT, file), 'utf8')

  test('links to files that exist', () => {
    expect(links(text).filter((target) => !exists(posix.join(dirname(file), target)))).toEqual([])
  })

  test('names files that exist', () => {
    const here = (path: string): boolean => exists(posix.join(dirname(file), path))
    expect(paths(text, isFolder).filter((path) => !isThere(path) && !here(path))).toEqual([])
  })

  test.skipIf(WIDE.has(posix.basename(file)))(`has lines of at most ${COLUMNS} columns`, () => {
    expect(wideLines(text)).toEqual([])
  })
})

test('a path is found in code, in prose and in braces, and no URL or module is taken for one', () => {
  const known = (name: string): boolean => ['src', 'engine'].includes(name)
  const text =
    'See `src/a.ts`, engine/run/{a,b}.ts. https://x.org/src/a.ts, /engine/v1.json, engine/v1, other/x.ts; src/base/'
  expect(paths(text, known)).toEqual(['src/a.ts', 'engine/run/{a,b}.ts', 'src/base/'])
  expect(spread('engine/run/{a,b}.ts')).toEqual(['engine/run/a.ts', 'engine/run/b.ts'])
  expect(links('[a](b.md#c) [d](https://e.org) [f](#g)')).toEqual(['b.md'])
})

/** The anchor of a heading, as hosts of Markdown make it. */
function anchorOf(heading: string): string {
  const words = heading.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
  return words.trim().replaceAll(/\s/g, '-')
}

test('every anchor of a link is a heading of its page', () => {
  const prose = (path: string): string => readFileSync(join(ROOT, path), 'utf8').replaceAll(/```[\s\S]*?```/g, '')
  const wrong = FILES.flatMap((path) =>
    [...prose(path).matchAll(/\]\((?!https?:)([^)\s#]*)#([^)\s]+)\)/g)].flatMap(([, page = '', anchor = '']) => {
      const target = page === '' ? path : posix.join(dirname(path), page)
      if (!target.endsWith('.md') || !existsSync(join(ROOT, target))) return []
      const anchors = [...prose(target).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading))
      return anchors.includes(anchor) ? [] : [`${path}: ${page}#${anchor}`]
    }),
  )
  expect(wrong).toEqual([])
})

test('the glossary has at most 60 words', () => {
  expect(readFileSync(join(ROOT, 'GLOSSARY.md'), 'utf8').match(/^- \*\*/gm)?.length).toBeLessThanOrEqual(60)
})
