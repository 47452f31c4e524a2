// The code that a browser loads: all of the page's, and the part that the first view needs.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { missing } from '../services.ts'

const PAGE = fileURLToPath(new URL('../../dist/dashboard/page/', import.meta.url))
const ALL_BYTES = 350_000
const FIRST_VIEW_BYTES = 150_000

const isBuilt =
  existsSync(`${PAGE}index.html`) || missing('the page is not built; run `npm run build`', 'its size') !== null
const assets = (): string[] => readdirSync(`${PAGE}assets`).filter((file) => file.endsWith('.js'))
const read = (file: string): string => readFileSync(`${PAGE}assets/${file}`, 'utf8')
const sizeOf = (files: Iterable<string>): number =>
  [...files].reduce((sum, file) => sum + gzipSync(readFileSync(`${PAGE}assets/${file}`), { level: 9 }).length, 0)

/** The files that a file imports before it runs, with theirs. */
function needed(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found
  found.add(file)
  // Only a static import: a chunk that a click loads is written `import("…")`.
  for (const [, name = ''] of read(file).matchAll(/(?:from|import)\s*["`']\.\/([^"`']+\.js)["`']/g)) needed(name, found)
  return found
}

describe.runIf(isBuilt)('the code of the page', () => {
  it('is at most 350 kB, compressed', () => {
    expect(assets().length).toBeGreaterThan(10)
    expect(sizeOf(assets())).toBeLessThanOrEqual(ALL_BYTES)
  })

  it('needs at most 150 kB, compressed, for its first view', () => {
    const entry = /src="\.\/assets\/([^"]+\.js)"/.exec(readFileSync(`${PAGE}index.html`, 'utf8'))?.[1] ?? ''
    const overview = assets().find((file) => file.startsWith('overview-')) ?? ''
    // The overview has a chart, whose library it loads as soon as there is something to draw.
    const plot = assets().find((file) => file.startsWith('plot-')) ?? ''
    const files = [overview, plot].reduce((found, file) => needed(file, found), needed(entry))
    expect(files.size).toBeGreaterThan(3)
    expect(sizeOf(files)).toBeLessThanOrEqual(FIRST_VIEW_BYTES)
    expect(sizeOf(files)).toBeGreaterThan(50_000)
  })

  it('runs nothing inline and loads nothing from elsewhere', () => {
    const html = readFileSync(`${PAGE}index.html`, 'utf8')
    expect(html).not.toMatch(/<script(?![^>]*\bsrc="\.\/assets\/)/)
    expect(html).not.toMatch(/<style|\bon\w+=|https?:/)
  })
})
