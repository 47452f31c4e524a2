import type * as Fs from 'node:fs'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { SqliteConnection } from '../../src/database/sqlite.ts'

// No disk refuses a sync on demand: this one call stands in for it.
const disk = vi.hoisted(() => ({ fails: false }))
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof Fs>()
  const fdatasync = (descriptor: number, done: (error: Error | null) => void): void => {
    if (disk.fails) setImmediate(() => done(new Error('EIO: i/o error')))
    else fs.fdatasync(descriptor, done)
  }
  return { ...fs, fdatasync }
})

let folder: string
let db: SqliteConnection

beforeEach(async () => {
  disk.fails = false
  folder = mkdtempSync(join(tmpdir(), 'sluice-database-'))
  db = new SqliteConnection({ path: join(folder, 'test.db'), sync: true })
  await db.write(0, () => db.exec('CREATE TABLE notes (text TEXT NOT NULL UNIQUE)'))
})

afterEach(async () => {
  await db.close()
  rmSync(folder, { recursive: true, force: true })
})

const note = (text: string): Promise<number> => db.write(1, () => db.run('INSERT INTO notes (text) VALUES (?)', text))
const notes = (): string[] => db.all<[string]>('SELECT text FROM notes ORDER BY text').map(([text]) => text)

it('a request that fails is refused alone: the others of its transaction are kept', async () => {
  const answers = await Promise.allSettled([note('a'), note('b'), note('a'), note('c')])
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
  expect(answers[2]).toMatchObject({ reason: { code: 'store.io' } })
  expect(notes()).toEqual(['a', 'b', 'c'])
})

it('what a request throws itself reaches its caller as it is', async () => {
  const own = new RangeError('mine')
  const thrown = db.write(1, () => {
    throw own
  })
  await expect(thrown).rejects.toBe(own)
})

it('requests of one transaction run in the order of their turns', async () => {
  const order: number[] = []
  await Promise.all(([2, 0, 1] as const).map((turn) => db.write(turn, () => order.push(turn))))
  expect(order).toEqual([0, 1, 2])
})

it('after a sync that failed nothing is acknowledged any more, not even what waited for the next commit', async () => {
  disk.fails = true
  const failed = note('unsynced')
  const waiting = new Promise<string>((resolve) => {
    setImmediate(() => {
      note('waiting').then(
        () => resolve('kept'),
        (error: { code: string }) => resolve(error.code),
      )
    })
  })
  await expect(failed).rejects.toMatchObject({ code: 'store.io' })
  disk.fails = false
  expect(await waiting).toBe('store.io')
  await expect(note('later')).rejects.toMatchObject({ code: 'store.io' })
})

it('a file that another process keeps locked is waited for', async () => {
  const other = new DatabaseSync(join(folder, 'test.db'))
  other.exec('BEGIN IMMEDIATE')
  let kept = false
  const written = note('patient').then(() => (kept = true))
  for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve))
  expect(kept).toBe(false)
  other.exec('COMMIT')
  other.close()
  await written
  expect(notes()).toEqual(['patient'])
})
