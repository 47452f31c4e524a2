// What holds for the .sql files of the PostgreSQL store before any server reads them.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = `${root}/src/store/postgres/sql/`

const script = pathToFileURL(`${root}/scripts/embed-sql.mjs`).href
const { embedded } = (await import(script)) as { embedded: () => string }

const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.sql'))

test('the embedded module is current', () => {
  expect(readFileSync(`${folder}embedded.ts`, 'utf8'), 'run: npx node scripts/embed-sql.mjs').toBe(embedded())
})

test.each(files)('%s has no line over 100 columns', (path) => {
  const lines = readFileSync(folder + path, 'utf8').split('\n')
  expect(lines.filter((line) => line.length > 100)).toEqual([])
})

test.each(files.filter((path) => path.startsWith('functions')))('%s names states and the fields of arrays', (path) => {
  const text = readFileSync(folder + path, 'utf8')
  expect(text.match(/\bstate(?: \+ 0)? (?:=|<>|IN) \(?\d/g)).toBeNull()
  expect(text.match(/(?<!take_arrivals.*)->>? \d/g)).toBeNull()
})
