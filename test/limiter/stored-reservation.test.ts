import { mkdtempSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createLimiter, limit } from '../../src/exports/limiter.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'

test('a reservation that an earlier version stored starts at its instant', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-reservation-'))
  const file = join(folder, 'sluice.db')
  const clock = createManualClock()
  const crm = limit('crm', { rate: 10, per: '1s', burst: 1 })
  const limiter = createLimiter({ backend: `sqlite:${file}`, limits: [crm], clock })
  onTestFinished(async () => {
    await limiter.close()
    rmSync(folder, { recursive: true })
  })
  await limiter.acquire([crm])
  const { id } = await limiter.reserve([crm], { atMost: '1s' })
  // Earlier versions did not remember when the starts of a bucket were booked.
  const db = new DatabaseSync(file)
  expect(
    db.prepare(`UPDATE permits SET reservation = json_remove(reservation, '$.booked') WHERE id = ?`).run(id),
  ).toMatchObject({
    changes: 1,
  })
  db.close()
  expect(await limiter.confirm(id)).toEqual({ kind: 'wait', startAfterMs: 100 })
  await clock.advance('100ms')
  expect(await limiter.confirm(id)).toMatchObject({ kind: 'go' })
})
