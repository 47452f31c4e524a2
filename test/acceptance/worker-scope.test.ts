import { expect, test } from 'vitest'
import { input, limit, Sluice, task } from '../../src/exports/index.ts'
import { expectWithinBudget, rate, Room } from './harness.ts'

test('two engines with budgets of their own start twice as much, each within its own, and say so', async () => {
  const room = new Room({ policy: rate(1, 1), file: true })
  const starts: { atUs: number; weight: number; engine: number }[] = []
  const own = { rate: 10, per: '1s', burst: 1, concurrency: 1 } as const
  const tasks = [0, 1].map((engine) =>
    task('work.own', input<{ n: number }>(), {
      limits: [limit('own', { ...own, scope: 'worker' })],
      run: () => void starts.push({ atUs: room.atUs, weight: 1, engine }),
    }),
  )
  const engines = tasks.map(
    (each) => new Sluice({ store: room.store, tasks: [each], clock: room.clock, logger: room.logger() }),
  )
  for (const engine of engines) await engine.start()
  await tasks[0]!.enqueueMany(Array.from({ length: 100 }, (_, n) => ({ n })))
  await room.clock.advance('2.1s')
  for (const engine of [0, 1]) {
    const mine = starts.filter((start) => start.engine === engine)
    expectWithinBudget({ rate: 10, per: '1s', burst: 1 }, mine, `engine ${engine}`)
    // The second is woken by the first one's writes, which it looks for every 50 ms.
    expect(mine.length).toBeGreaterThanOrEqual(20)
  }
  const report = await engines[0]!.limits.inspect('own')
  expect(report.map(({ worker, capacity }) => [typeof worker, capacity])).toEqual([
    ['number', 1],
    ['number', 1],
  ])
  const [last] = await engines[0]!.jobs.list({ limit: 1 })
  const explained = await engines[0]!.jobs.explain(last!.id)
  expect(explained.eachWorker).toHaveLength(2)
  expect(explained.words).toMatch(/each worker has its own/)
  expect((await engines[0]!.limits.waiting()).waiting).toBe(100 - starts.length)
  await engines[1]!.stop()
  await room.clock.advance('10s')
  expect(starts).toHaveLength(100)
  await engines[0]!.stop()
  expect(room.errors).toEqual([])
})

test('a limit of this scope can neither drop nor reschedule', () => {
  for (const onLimit of ['drop', 'reschedule'] as const)
    expect(() => limit('own', { rate: 1, per: '1s', scope: 'worker', onLimit })).toThrow(/scope 'worker'/)
})
