import { expect, test } from 'vitest'
import { RateLimited } from '../../src/exports/index.ts'
import { Room } from './harness.ts'

test('flow-limits row 10: a refusal holds its key and no other, costs no attempt, and the key resumes at the rate', async () => {
  const refused = new Set<string>()
  const room = await Room.open({
    policy: { rate: 50, per: '1s', burst: 1 },
    task: { retry: { attempts: 1 } },
    run: (call) => {
      if (call.name !== 'A1' || refused.has('A1')) return undefined
      refused.add('A1')
      throw new RateLimited({ retryAfter: '5s' })
    },
  })
  const jobs = await room.enqueueMany(1, { key: 'A' })
  await room.until(0.01)
  await room.enqueueMany(100, { key: 'A', name: 'backlog' })
  await room.enqueueMany(10, { key: 'B' })
  await room.until(4.999)
  expect(room.secondsOf('A')).toEqual([0])
  expect(room.secondsOf('B')).toEqual(
    Array.from({ length: 10 }, (_, i) => expect.closeTo(0.01 + i * 0.02, 6) as number),
  )
  await room.until(10)
  const later = room.secondsOf('A').slice(1)
  expect(later).toHaveLength(101)
  expect(later[0]).toBe(5)
  for (const [i, seconds] of later.entries()) expect(seconds).toBeCloseTo(5 + i * 0.02, 6)
  expect(await jobs[0]?.result()).toBeUndefined()
  expect(await room.view(jobs[0] ?? { id: '' })).toMatchObject({ state: 'completed', attempt: 1 })
  await room.finish({ pushedBack: 1 })
})

test('flow-limits row 10: a full burst that was there before the refusal is not there after it', async () => {
  let refusals = 0
  const room = await Room.open({
    policy: { rate: 50, per: '1s' },
    task: { retry: { attempts: 1 } },
    run: () => {
      if (refusals++ > 0) return undefined
      throw new RateLimited({ retryAfter: '5s' })
    },
  })
  await room.enqueueMany(1, { key: 'A' })
  await room.until(0.5)
  await room.enqueueMany(60, { key: 'A' })
  await room.until(8)
  const later = room.secondsOf('A').slice(1)
  expect(later[0]).toBe(5)
  expect(later.filter((seconds) => seconds < 6)).toHaveLength(50)
  expect(later.filter((seconds) => seconds === 5)).toHaveLength(1)
  await room.finish({ pushedBack: 1 })
})
