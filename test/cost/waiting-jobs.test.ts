import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { RETENTION, type StoreBackend } from '../conformance/store/backend.ts'
import { StoreHarness } from '../conformance/store/store-harness.ts'

const LANES = 200
const JOBS = 5

describe('what waiting costs', () => {
  let folder: string
  let harness: StoreHarness
  let reader: DatabaseSync

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-cost-'))
    const path = join(folder, 'jobs.db')
    harness = await StoreHarness.open(onFile(path))
    reader = new DatabaseSync(path)
  })
  afterEach(async () => {
    reader.close()
    await harness.store.close()
    rmSync(folder, { recursive: true })
  })

  const version = (): unknown => reader.prepare('PRAGMA data_version').get()
  const dump = (): unknown => ({
    jobs: reader.prepare(`SELECT * FROM jobs WHERE task LIKE 'w%' ORDER BY seq`).all(),
    lanes: reader.prepare(`SELECT * FROM lanes WHERE state = 2 ORDER BY id`).all(),
    buckets: reader.prepare(`SELECT * FROM buckets WHERE limit_name = 'closed' ORDER BY id`).all(),
  })

  async function closeLanes(): Promise<void> {
    await harness.define({
      closed: { rate: 1, per: '1d' },
      shared: { rate: 1, per: '1d' },
      ample: { rate: 1e6, per: '1s' },
    })
    for (let lane = 0; lane < LANES; lane++)
      await harness.add(`w${lane}-`, { limits: [`closed:${lane}`, 'shared'] }, JOBS)
    expect(await harness.start()).toHaveLength(1)
    // The lane that had its turn comes behind those that the first claim did not read.
    expect(await harness.start()).toEqual([])
  }

  test('no row of a waiting job, of its lane or of its bucket is written between its arrival and its start', async () => {
    await closeLanes()
    await harness.complete(harness.run('w0-1').task)
    const before = dump()
    for (let i = 0; i < 1000; i++) {
      await harness.add(`x${i}`, { limits: [`ample:${i % 7}`] })
      expect(await harness.start()).toEqual([`x${i}`])
      await harness.complete(`x${i}`)
    }
    expect(dump()).toEqual(before)
  })

  test('a look that finds nothing to start writes nothing', async () => {
    await closeLanes()
    await harness.wake()
    const before = version()
    for (let i = 0; i < 50; i++) {
      harness.at(1000 + i)
      expect(await harness.wake()).toBe(86_400_000)
    }
    expect(version()).toEqual(before)
    await harness.add('x')
    expect(version()).not.toEqual(before)
  })

  test('a job that waits behind others of its lane costs no more than its own row', async () => {
    await closeLanes()
    const before = dump() as { lanes: unknown; buckets: unknown }
    await harness.add('w-late', { limits: ['closed:3', 'shared'] }, 10)
    const after = dump() as { lanes: unknown; buckets: unknown }
    expect([after.lanes, after.buckets]).toEqual([before.lanes, before.buckets])
  })
})

describe('what keys cost', () => {
  test('the memory of the process does not grow with the keys that wait', async () => {
    const harness = await StoreHarness.open(onFile(':memory:'))
    try {
      await harness.define({ closed: { concurrency: 0 } })
      // Twice the same phase of any bounded cache of 20,000 entries: what grows in between grows with the keys.
      const early = await heapWith(harness, 0, 21_000)
      const late = await heapWith(harness, 21_000, 41_000)
      expect(late - early).toBeLessThan(1_000_000)
    } finally {
      await harness.store.close()
    }
  })
})

async function heapWith(harness: StoreHarness, from: number, to: number): Promise<number> {
  for (let at = from; at < to; at += 1000) {
    const jobs = Array.from({ length: 1000 }, (_, i) =>
      harness.job('w', { limits: [`closed:a-key-of-some-length-${at + i}`] }),
    )
    await harness.store.enqueue(jobs)
    while ((await harness.claim({ slots: 1000 })).looks > 0);
  }
  collectGarbage()
  return process.memoryUsage().heapUsed
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  collect()
}

function onFile(path: string): StoreBackend {
  return {
    name: path,
    open: async (clock) => {
      const store = new SqliteStore({ path, clock, durability: 'process', retention: RETENTION })
      await store.open()
      return store
    },
  }
}
