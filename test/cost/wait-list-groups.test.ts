import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { StoreHarness } from '../conformance/store/store-harness.ts'
import { sqliteAt } from '../store/sqlite-backend.ts'

/** A store on a file, and the numbers of waiting lanes by their groups there. */
async function onFile(): Promise<{ readonly harness: StoreHarness; readonly groups: () => string[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-groups-'))
  const path = join(folder, 'jobs.db')
  const harness = await StoreHarness.open(sqliteAt(path))
  onTestFinished(async () => {
    await harness.store.close()
    rmSync(folder, { recursive: true })
  })
  const groups = (): string[] => {
    const reader = new DatabaseSync(path)
    const rows = reader
      .prepare('SELECT over, count(*) AS lanes FROM lanes WHERE state = 2 GROUP BY bucket, over ORDER BY 1')
      .all()
    reader.close()
    return rows.map(
      ({ over, lanes }) => `${Number(lanes)} ${over === '' ? 'together' : over === '!' ? 'for others' : 'apart'}`,
    )
  }
  return { harness, groups }
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
