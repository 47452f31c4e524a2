import { expect, it } from 'vitest'
import { input, limit, Sluice, task } from '../../src/exports/index.ts'
import { createManualClock } from '../../src/exports/testing.ts'

it('a limit that drops rejects a backlog of any length at once, each job once', async () => {
  const clock = createManualClock()
  const dropped = new Set<string>()
  let runs = 0
  const strict = limit('strict', { rate: 1, per: '10s', burst: 1, onLimit: 'drop' })
  const call = task('call', input<{ n: number }>(), {
    limits: [strict],
    run: () => void runs++,
    onError: (_, job) => void dropped.add(job.id),
  })
  const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [call], clock })
  await sluice.start()
  await call.enqueueMany(Array.from({ length: 5000 }, (_, n) => ({ n })))
  await clock.advance('1ms')
  expect(runs).toBe(1)
  expect(dropped.size).toBe(4999)
  expect(await sluice.jobs.list({ states: ['available'] })).toEqual([])
  await sluice.stop()
})
