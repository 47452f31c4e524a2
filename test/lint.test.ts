// The house rules that oxlint holds: each is broken once below, and must be found there and nowhere else.
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const lines = (count: number): string => '\n'.repeat(count)

/** Broken rules by the code that breaks them, in the engine. */
const BROKEN: readonly (readonly [rule: string, content: string])[] = [
  ['no-explicit-any', 'export const x = (y: any) => y'],
  ['no-explicit-any', 'export const x = (y: Map<string, any[]>) => y'],
  ['no-explicit-any', 'export type A<T = any> = T'],
  ['no-restricted-properties', 'export const x = Date.now()'],
  ['no-restricted-properties', "export const x = Date['now']"],
  ['no-restricted-properties', 'export const { now } = Date'],
  ['no-restricted-properties', 'export const x = Math.random()'],
  ['no-restricted-properties', 'export const { random: dice } = Math'],
  ['no-restricted-properties', 'export const x = performance.now()'],
  ['no-restricted-properties', 'export const x = performance.timeOrigin'],
  ['no-restricted-properties', 'export const x = process.hrtime.bigint()'],
  ['no-restricted-globals', 'export const x = globalThis.Date.now()'],
  ['no-restricted-globals', 'export const x = setTimeout(() => 1, 5)'],
  ['no-restricted-globals', 'export const x = setInterval(() => 1, 5)'],
  ['no-restricted-imports', "export { setTimeout } from 'node:timers/promises'"],
  ['max-lines', `export const x = 1${lines(400)}`],
  ['max-lines-per-function', `export function f() {${lines(69)}}`],
  ['max-lines-per-function', `export const f = () => {${lines(69)}}`],
  ['max-lines-per-function', `export const f = { a: [() => {${lines(69)}}] }`],
  ['max-lines-per-function', `export class A { readonly a = 1; f() {${lines(69)}} }`],
  ['max-lines-per-function', `export class A { readonly a; constructor() { this.a = 1${lines(69)}} }`],
]

/** Code that keeps every rule where it stands. */
const KEPT: readonly (readonly [path: string, content: string])[] = [
  ['src/engine/words.ts', "// any Date.now()\nexport const any = 'Math.random()'"],
  ['src/engine/long.ts', `export const x = 1${lines(399)}`],
  ['src/engine/function.ts', `export function f() {${lines(68)}}`],
  ['src/base/clock.ts', 'export const x = [Date.now(), Math.random(), setTimeout(() => 1, 5)]'],
  ['src/database/wait.ts', 'export const x = setTimeout(() => 1, 5)'],
  ['src/cli/wait.ts', 'export const x = setTimeout(() => 1, 5)'],
]

/** The rules that oxlint found broken, by file. */
let found: ReadonlyMap<string, readonly string[]>
const folder = mkdtempSync(join(tmpdir(), 'sluice-lint-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function write(path: string, content: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), content)
}

/** Lints the folder; oxlint ends with code 1 where it finds something. */
function lint(): Promise<string> {
  const oxlint = join(ROOT, 'node_modules/oxlint/bin/oxlint')
  return new Promise((resolve) => {
    execFile(process.execPath, [oxlint, '--format', 'json'], { cwd: folder }, (_, stdout) => resolve(stdout))
  })
}

beforeAll(async () => {
  const config = JSON.parse(readFileSync(join(ROOT, '.oxlintrc.json'), 'utf8')) as object
  // Snippets belong to no TypeScript project.
  write('.oxlintrc.json', JSON.stringify({ ...config, options: {} }))
  BROKEN.forEach(([, content], i) => write(`src/engine/broken-${i}.ts`, content))
  for (const [path, content] of KEPT) write(path, content)
  write('src/database/clock.ts', 'export const x = Date.now()')
  write('src/cli/clock.ts', 'export const x = globalThis.Date.now()')
  const report = JSON.parse(await lint()) as { diagnostics: readonly { filename: string; code: string }[] }
  found = new Map(
    [...Map.groupBy(report.diagnostics, ({ filename }) => filename)].map(([path, diagnostics]) => [
      path,
      diagnostics.map(({ code }) => code.replace(/^.*\((.*)\)$/, '$1')),
    ]),
  )
})

test.each(BROKEN.map(([rule, content], i) => ({ rule, content: content.trim(), i })))(
  '$rule finds `$content`',
  ({ rule, i }) => {
    expect(found.get(`src/engine/broken-${i}.ts`)).toEqual([rule])
  },
)

test.each(KEPT)('%s is left alone', (path) => {
  expect(found.get(path)).toBeUndefined()
})

test('floors that wait in real time still read no clock of their own', () => {
  expect(found.get('src/database/clock.ts')).toEqual(['no-restricted-properties'])
  expect(found.get('src/cli/clock.ts')).toEqual(['no-restricted-globals'])
})
