import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

/** A store file that no engine of this version may open, until it is set right. */
function refusedStore(): { readonly store: string; readonly setRight: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-opening-'))
  const path = join(folder, 'jobs.db')
  const database = new DatabaseSync(path)
  database.exec('PRAGMA user_version = 999')
  onTestFinished(() => {
    database.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return { store: `sqlite:${path}`, setRight: () => database.exec('PRAGMA user_version = 0') }
}

test('an engine whose store could not be opened opens it at the next call', async () => {
  const harness = createEngineHarness()
  const { store, setRight } = refusedStore()
  const ran: number[] = []
  const note = task('note', { run: () => void ran.push(harness.at()) })
  const engine = harness.create({ store, tasks: [note] })
  await expect(note.enqueue()).rejects.toMatchObject({ code: 'store.version' })
  await expect(engine.start()).rejects.toMatchObject({ code: 'store.version' })
  setRight()
  await note.enqueue()
  await engine.start()
  await harness.clock.advance('1s')
  expect(ran).toHaveLength(1)
})

test('calls made together share one attempt to open the store', async () => {
  const harness = createEngineHarness()
  const { store, setRight } = refusedStore()
  const note = task('note', { run: () => undefined })
  const engine = harness.create({ store, tasks: [note] })
  const answers = await Promise.allSettled([note.enqueue(), note.enqueue(), engine.start()])
  expect(answers.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  setRight()
  await Promise.all([engine.start(), engine.start(), note.enqueue()])
  await harness.clock.advance('1s')
  expect(await engine.jobs.list({ states: ['completed'] })).toHaveLength(1)
})
