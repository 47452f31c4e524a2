import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger, Sluice, task } from '../../src/exports/index.ts'

test('a new SQLite file and its log are their owner’s alone; the mode of one that is there stays', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-mode-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'jobs.db')
  const noop = task('noop', { run: () => undefined })
  const modes = async (): Promise<number[]> => {
    const sluice = new Sluice({ store: `sqlite:${path}`, tasks: [noop], logger: silentLogger })
    await sluice.start()
    await noop.enqueue()
    const found = [path, `${path}-wal`].map((file) => statSync(file).mode & 0o777)
    await sluice.stop()
    return found
  }
  expect(await modes()).toEqual([0o600, 0o600])
  chmodSync(path, 0o640)
  expect(await modes()).toEqual([0o640, 0o640])
})
