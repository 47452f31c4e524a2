import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { linesIn } from '../../src/cli/ndjson.ts'
import { emptyStore, folder, sluice } from './terminal.ts'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const ID = '01a20021-deb9-7f2f-a3ad-017f490bb225'

function fileOf(content: string | Buffer): string {
  const path = join(folder(), 'lines.ndjson')
  writeFileSync(path, content)
  return path
}

async function read(content: string | Buffer): Promise<unknown[]> {
  const found: unknown[] = []
  for await (const { line, text } of linesIn(fileOf(content))) found.push([line, text])
  return found
}

describe('the lines of a file', () => {
  test('end at a line feed alone, and a carriage return before it is dropped', async () => {
    expect(await read('"a\u2028b"\r\n\n  \r\n"c\u2029\u0085d"\n"e\rf"')).toEqual([
      [1, '"a\u2028b"'],
      [4, '"c\u2029\u0085d"'],
      [5, '"e\rf"'],
    ])
    expect(await read('')).toEqual([])
  })

  test('may be longer than a chunk of the file, and characters may lie across two chunks', async () => {
    const long = 'ü\u{1F600}\u2028'.repeat(40_000)
    expect(await read(`x${long}\r\n${long}\n\n${long}`)).toEqual([
      [1, `x${long}`],
      [2, long],
      [4, long],
    ])
  })

  test('begin after a byte order mark at the start of the file, and nowhere else', async () => {
    expect(await read('\uFEFF{"at":0}\n\uFEFF{}\n')).toEqual([
      [1, '{"at":0}'],
      [2, '\uFEFF{}'],
    ])
  })

  test.each([
    ['ISO 8859-1', Buffer.from('{}\n\n"b\xFCro"\n', 'latin1'), 3],
    ['UTF-16', Buffer.from('\uFEFF{}\n', 'utf16le'), 1],
    ['half a character at the end', Buffer.from('{}\n"ü', 'utf8').subarray(0, -1), 2],
  ])('are refused by their number in %s', async (_, bytes, line) => {
    const file = fileOf(bytes)
    const work = async (): Promise<void> => {
      for await (const _each of linesIn(file));
    }
    await expect(work()).rejects.toMatchObject({
      code: 'cli.usage',
      message: `Line ${line} of ${file} is invalid: it has bytes that are not UTF-8. Save the file as UTF-8.`,
    })
  })
})

test('sluice import and replay read a text with U+2028, from a file that begins with a byte order mark', async () => {
  const store = `sqlite:${join(folder(), 'jobs.db')}`
  await emptyStore(store)
  const job = fileOf(`\uFEFF{"kind":"job","id":"${ID}","task":"work","input":"a\u2028b\u2029c"}\r\n`)
  expect(await sluice(['import', job, '--yes', '--store', store])).toMatchObject({ code: 0, err: '' })
  const { out } = await sluice(['jobs', ID, '--json', '--store', store])
  expect(JSON.parse(out)).toMatchObject({ job: { input: 'a\u2028b\u2029c' } })
  const arrivals = fileOf('\uFEFF{"at":"2030-01-31T12:00:00Z","key":"a\u2028b"}\n')
  const replayed = await sluice(['replay', '--policy', '5/s', '--file', arrivals, '--json'])
  expect(JSON.parse(replayed.out)).toMatchObject({ arrivals: 1, worst: [{ key: 'a\u2028b' }] })
})

test('sluice import and replay refuse bytes that are not UTF-8, and store nothing', async () => {
  const store = `sqlite:${join(folder(), 'jobs.db')}`
  await emptyStore(store)
  const bytes = Buffer.from(`{"kind":"job","id":"${ID}","task":"work","input":"b\xFCro"}\n`, 'latin1')
  const ended = await new Promise((resolve) => {
    const args = [MAIN, 'import', '-', '--yes', '--store', store]
    const child = execFile(process.execPath, args, (error, out, err) => resolve({ code: error?.code, out, err }))
    child.stdin?.end(bytes)
  })
  const words = 'is invalid: it has bytes that are not UTF-8. Save the file as UTF-8.'
  expect(ended).toEqual({ code: 2, out: '', err: `error cli.usage: Line 1 of standard input ${words}\n` })
  expect(await sluice(['jobs', ID, '--store', store])).toMatchObject({ code: 1 })
  const file = fileOf(bytes)
  const replayed = await sluice(['replay', '--policy', '5/s', '--file', file])
  expect(replayed).toMatchObject({ code: 2, out: '', err: `error cli.usage: Line 1 of ${file} ${words}\n` })
})
