// Slow counts are repeated from memory for a while, so that a client that polls them leaves the server time for its work.
import { remoteOf } from '../../src/remote/remote.ts'
import { expect, test } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { QueueCounts } from '../../src/http/queue-counts.ts'
import { HttpHarness } from './http-harness.ts'

/** A clock that moves on by so much at each look: so long each count takes. */
function movingBy(clock: Clock, us: number): Clock {
  let passedUs = 0
  return Object.assign(Object.create(clock) as Clock, { monotonicUs: () => clock.monotonicUs() + (passedUs += us) })
}

async function waiting(counts: QueueCounts): Promise<number | undefined> {
  return (await counts.of('q')).find(({ state }) => state === 'available')?.jobs
}

test('a count that was quick is repeated each time', async () => {
  const harness = await HttpHarness.open()
  const counts = new QueueCounts(remoteOf(harness.sluice), movingBy(harness.clock, 4000))
  await harness.push()
  expect(await waiting(counts)).toBe(1)
  await harness.push()
  expect(await waiting(counts)).toBe(2)
})

test('one that took long is kept for nine times as long, and then repeated', async () => {
  const harness = await HttpHarness.open()
  const counts = new QueueCounts(remoteOf(harness.sluice), movingBy(harness.clock, 100_000))
  await harness.push()
  expect(await waiting(counts)).toBe(1)
  await harness.push()
  for (let look = 1; look <= 8; look++) expect(await waiting(counts)).toBe(1)
  expect(await waiting(counts)).toBe(2)
})

test('every count is repeated where none may be kept', async () => {
  const harness = await HttpHarness.open()
  const counts = new QueueCounts(remoteOf(harness.sluice), movingBy(harness.clock, 100_000), 0)
  for (const jobs of [1, 2]) {
    await harness.push()
    expect(await waiting(counts)).toBe(jobs)
  }
})
