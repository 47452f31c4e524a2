import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { seededRandom } from '../../src/base/random.ts'
import { StoreHarness } from '../conformance/store/store-harness.ts'
import { sqliteAt } from '../store/sqlite-backend.ts'

/** A store on a file. */
interface OnFile {
  readonly harness: StoreHarness
  /** The numbers of waiting lanes by their groups there. */
  readonly groups: () => string[]
  /** How many groups the wait list of most groups has. */
  readonly most: () => number
}

async function onFile(): Promise<OnFile> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-groups-'))
  const path = join(folder, 'jobs.db')
  const harness = await StoreHarness.open(sqliteAt(path))
  onTestFinished(async () => {
    await harness.store.close()
    rmSync(folder, { recursive: true })
  })
  const read = (sql: string): Record<string, SQLOutputValue>[] => {
    const reader = new DatabaseSync(path)
    const rows = reader.prepare(sql).all()
    reader.close()
    return rows
  }
  return {
    harness,
    groups: () =>
      read('SELECT over, count(*) AS lanes FROM lanes WHERE state = 2 GROUP BY bucket, over ORDER BY 1').map(
        ({ over, lanes }) => `${Number(lanes)} ${over === '' ? 'together' : over === '!' ? 'for others' : 'apart'}`,
      ),
    most: () =>
      Number(
        read('SELECT count(DISTINCT over) AS n FROM lanes WHERE state = 2 GROUP BY bucket ORDER BY n DESC')[0]?.['n'],
      ),
  }
}

test('limits that refuse nothing do not split the line of one that does', async () => {
  const { harness, groups } = await onFile()
  await harness.define({
    global: { rate: 1, per: '10ms' },
    model: { rate: 1000, per: '1s' },
    region: { rate: 1000, per: '1s' },
    plan: { rate: 1000, per: '1s' },
  })
  const limits = (i: number): string[] => [
    'global',
    `model:${i % 10}`,
    `region:${Math.floor(i / 10) % 10}`,
    `plan:${Math.floor(i / 100) % 10}`,
  ]
  // Every key has more lanes than make a bucket widely shared.
  const jobs = Array.from({ length: 1000 }, (_, i) => harness.job(`j${i}`, { limits: limits(i) }))
  await harness.store.enqueue(jobs)
  for (let ms = 0; ms < 200; ms += 10) {
    harness.at(ms)
    while ((await harness.claim({ slots: 100 })).looks > 0);
  }
  expect(groups()).toHaveLength(1)
})

test('a claim moves the lanes that a bucket closes for into its group', async () => {
  const { harness, groups } = await onFile()
  await harness.define({ b: { rate: 1, per: '1s' }, p: { rate: 100, per: '1s' }, k: { rate: 99, per: '1s' } })
  await harness.add('drain', { limits: ['b'] })
  await harness.start()
  await harness.store.enqueue(Array.from({ length: 50 }, (_, i) => harness.job('l', { limits: ['b', 'p', `k:${i}`] })))
  while ((await harness.claim({ slots: 100 })).looks > 0);
  expect(groups()).toEqual(['50 together'])
  await harness.pause('p')
  harness.at(1000)
  expect(await harness.start()).toEqual([])
  // One waits in the list of the closed bucket, for the others.
  expect(groups()).toEqual(['1 for others', '49 apart'])
  await harness.add('last', { limits: ['b', 'k:last'] })
  harness.at(2000)
  expect(await harness.start()).toEqual(['last'])
})

test('a line has few groups although several limits at once refuse most of its lanes, each for keys of its own', async () => {
  const { harness, most } = await onFile()
  await harness.define({
    all: { rate: 1, per: '5ms' },
    account: { rate: 1, per: '77ms' },
    tenant: { rate: 1, per: '250ms' },
    endpoint: { rate: 1, per: '200ms' },
  })
  const random = seededRandom(1)
  const one = (of: string, keys: number): string => `${of}:${Math.floor(random.next() * keys)}`
  const jobs = Array.from({ length: 2000 }, (_, i) =>
    harness.job(`j${i}`, { limits: ['all', one('account', 16), one('tenant', 60), one('endpoint', 50)] }),
  )
  await harness.store.enqueue(jobs)
  let started = 0
  let groups = 0
  for (let ms = 0; ms < 500; ms += 5) {
    harness.at(ms)
    for (let more = true; more;) {
      const { jobs: begun, looks } = await harness.claim({ slots: 100 })
      started += begun.length
      more = looks > 0
    }
    groups = Math.max(groups, most())
  }
  expect(started).toBeGreaterThan(95)
  expect(groups).toBeLessThan(200)
})
