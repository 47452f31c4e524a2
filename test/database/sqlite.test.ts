import type * as Fs from 'node:fs'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { SqliteConnection } from '../../src/database/sqlite.ts'

// No disk refuses a sync on demand, or takes as long as it is told: these two calls stand in for one that does.
const disk = vi.hoisted(() => ({ fails: false, takesUs: 0, nowUs: 0, syncs: [] as ('elsewhere' | 'here')[] }))
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof Fs>()
  const sync = (where: 'elsewhere' | 'here'): void => {
    disk.syncs.push(where)
    disk.nowUs += disk.takesUs
    if (disk.fails) throw new Error('EIO: i/o error')
  }
  const fdatasyncSync = (descriptor: number): void => {
    sync('here')
    fs.fdatasyncSync(descriptor)
  }
  const fdatasync = (descriptor: number, done: (error: unknown) => void): void => {
    try {
      sync('elsewhere')
      fs.fdatasync(descriptor, done)
    } catch (error) {
      setImmediate(() => done(error))
    }
  }
  return { ...fs, fdatasync, fdatasyncSync }
})

let folder: string
let db: SqliteConnection

beforeEach(async () => {
  Object.assign(disk, { fails: false, takesUs: 0 })
  folder = mkdtempSync(join(tmpdir(), 'sluice-database-'))
  db = new SqliteConnection({ path: join(folder, 'test.db'), sync: true })
  await db.write(0, () => db.exec('CREATE TABLE notes (text TEXT NOT NULL UNIQUE)'))
})

afterEach(async () => {
  vi.restoreAllMocks()
  await db.close()
  rmSync(folder, { recursive: true, force: true })
})

/** From here on only syncs take time. The next one runs on the thread of the test. */
async function quickDisk(): Promise<void> {
  vi.spyOn(systemClock, 'monotonicUs').mockImplementation(() => disk.nowUs)
  await note('quick')
  disk.syncs.length = 0
}

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

it('syncs itself while that takes no time, and lets another thread wait for a slow disk', async () => {
  await quickDisk()
  await note('a')
  disk.takesUs = 500
  for (const text of ['b', 'c', 'd']) await note(text)
  disk.takesUs = 499
  for (const text of ['e', 'f']) await note(text)
  expect(disk.syncs).toEqual(['here', 'here', 'elsewhere', 'elsewhere', 'elsewhere', 'here'])
  expect(notes()).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'quick'])
})

it('syncs itself while that takes less than the commit before it, up to 2 ms', async () => {
  await quickDisk()
  const longCommit = (text: string, us: number): Promise<void> =>
    db.write(1, () => {
      db.run('INSERT INTO notes (text) VALUES (?)', text)
      disk.nowUs += us
    })
  disk.takesUs = 1000
  await longCommit('a', 1001)
  await longCommit('b', 1001)
  await longCommit('c', 1000)
  disk.takesUs = 2000
  await longCommit('d', 1001)
  await longCommit('e', 3000)
  expect(disk.syncs).toEqual(['here', 'here', 'elsewhere', 'here', 'elsewhere'])
})

it.each([
  ['a quick disk', 0],
  ['a slow one', 500],
])(
  'after a sync of %s that failed nothing is acknowledged any more, not even what waited for the next commit',
  async (_, takesUs) => {
    await quickDisk()
    disk.takesUs = takesUs
    await note('first')
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
  },
)

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

it('a file that stays locked is given up after the time that the message names, and serves again once it is free', async () => {
  const path = join(folder, 'test.db')
  const patient = new SqliteConnection({ path, sync: false, busyMs: 300 })
  const other = new DatabaseSync(path)
  other.exec('BEGIN IMMEDIATE')
  const insert = (text: string): Promise<number> =>
    patient.write(1, () => patient.run('INSERT INTO notes (text) VALUES (?)', text))
  const began = performance.now()
  const refused = await insert('refused').catch((error: unknown) => error)
  const tookMs = performance.now() - began
  expect(refused).toMatchObject({ code: 'store.busy', lasts: 'passes' })
  expect((refused as Error).message).toContain('locked for 0.3 s')
  expect(tookMs).toBeGreaterThanOrEqual(300)
  await expect(insert('refused too')).rejects.toMatchObject({ code: 'store.busy' })
  other.exec('COMMIT')
  other.close()
  await insert('kept')
  await patient.close()
  expect(notes()).toEqual(['kept'])
})

it('the log that a long reader has let grow shrinks once the reader has gone', async () => {
  const path = join(folder, 'test.db')
  const logBytes = (): number => statSync(`${path}-wal`).size
  const megabyte = 'x'.repeat(1 << 20)
  const fill = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) await note(`${performance.now()} ${megabyte}`)
  }
  const reader = new DatabaseSync(path)
  reader.exec('BEGIN')
  reader.prepare('SELECT count(*) FROM notes').get()
  await fill(40)
  expect(logBytes()).toBeGreaterThan(40 << 20)
  reader.exec('COMMIT')
  reader.close()
  await fill(20)
  expect(logBytes()).toBeLessThan(25 << 20)
})
