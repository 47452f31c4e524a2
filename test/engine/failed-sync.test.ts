// A disk that refuses a sync ends the store for its process: one error says so, and nothing goes on in silence or by the line.
import type * as Fs from 'node:fs'
import { expect, test, vi } from 'vitest'
import { task } from '../../src/exports/index.ts'
import { onSqlite } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

// No disk refuses a sync on demand: these two calls stand in for one that does.
const disk = vi.hoisted(() => ({ fails: false }))
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof Fs>()
  const fdatasync = (descriptor: number, done: (error: Error | null) => void): void => {
    if (disk.fails) setImmediate(() => done(new Error('EIO: i/o error')))
    else fs.fdatasync(descriptor, done)
  }
  const fdatasyncSync = (descriptor: number): void => {
    if (disk.fails) throw new Error('EIO: i/o error')
    fs.fdatasyncSync(descriptor)
  }
  return { ...fs, fdatasync, fdatasyncSync }
})

test('after a sync that failed calls are refused, one error is logged, and the engine stops; a new one runs what is left', async () => {
  const { clock, start, errors, warnings } = createEngineHarness()
  const store = onSqlite.create()
  const ends: number[] = []
  const work = task('work.item', {
    run: async (_input, { attempt }) => {
      await clock.sleep('2s')
      ends.push(attempt)
    },
  })
  const engine = await start({ tasks: [work], store, lease: '5s' })
  const job = await work.enqueue()
  await clock.advance('1s')
  disk.fails = true
  await expect(work.enqueue()).rejects.toMatchObject({ code: 'store.io', lasts: 'final' })
  disk.fails = false
  await expect(work.enqueue()).rejects.toMatchObject({ code: 'store.io', lasts: 'final' })
  await clock.advance('5m')
  expect([errors.length, warnings.length]).toEqual([1, 0])
  expect(errors[0]).toContain('the store has failed')
  await engine.stop()
  expect([errors.length, warnings.length]).toEqual([1, 0])

  const next = await start({ tasks: [work], store, lease: '5s' })
  await clock.advance('20s')
  expect(await next.jobs.get(job.id)).toMatchObject({ state: 'completed' })
})
