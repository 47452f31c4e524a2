// Rules for the .sql files of both stores, before any database reads them.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = `${root}/src/store/`

const script = pathToFileURL(`${root}/scripts/embed-sql.mjs`).href
const { MODULES } = (await import(script)) as { MODULES: Readonly<Record<string, () => string>> }

const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.sql'))

test.each(Object.entries(MODULES))('%s is current', (path, text) => {
  expect(readFileSync(folder + path, 'utf8'), 'run: npx node scripts/embed-sql.mjs').toBe(text())
})

test.each(files)('%s has no line over 100 columns', (path) => {
  const lines = readFileSync(folder + path, 'utf8').split('\n')
  expect(lines.filter((line) => line.length > 100)).toEqual([])
})

test.each(files.filter((path) => path.includes('functions')))('%s names states and the fields of arrays', (path) => {
  const text = readFileSync(folder + path, 'utf8')
  expect(text.match(/\bstate(?: \+ 0)? (?:=|<>|IN) \(?\d/g)).toBeNull()
  expect(text.match(/(?<!take_arrivals.*)->>? \d/g)).toBeNull()
})
