import { expect, test } from 'vitest'
import { WaitHistogram } from '../../src/engine/events/wait-histogram.ts'

const start = (waitedMs: number, limits: readonly string[], held: string | null = limits[0] ?? null) => ({
  availableUs: 0,
  startedUs: waitedMs * 1000,
  waitedFor: held === null ? null : { limit: held, key: 'x' },
  uses: limits.map((limit) => ({ limit, key: 'x', weight: 1 })),
})

test('a wait belongs to the limit that was waited for; a wait for a slot to none', () => {
  const waits = new WaitHistogram()
  waits.add(start(700, ['a', 'b'], 'b'))
  waits.add(start(9000, ['a'], null))
  expect(waits.view()).toMatchObject([
    { limit: 'a', starts: 2, waited: 0, maxMs: 0, meanMs: 0 },
    { limit: 'b', starts: 1, waited: 1, maxMs: 700, meanMs: 700 },
  ])
})

test('percentiles are bounds of the classes, never above the longest wait', () => {
  const waits = new WaitHistogram()
  for (let ms = 1; ms <= 100; ms++) waits.add(start(ms, ['a']))
  const [view] = waits.view()
  expect(view).toMatchObject({ starts: 100, maxMs: 100, p50Ms: 50, p99Ms: 100, meanMs: 50.5 })
  expect(view?.classes.filter(({ starts }) => starts > 0)).toEqual([
    { upToMs: 1, starts: 1 },
    { upToMs: 2.5, starts: 1 },
    { upToMs: 5, starts: 3 },
    { upToMs: 10, starts: 5 },
    { upToMs: 25, starts: 15 },
    { upToMs: 50, starts: 25 },
    { upToMs: 100, starts: 50 },
  ])
  waits.add(start(1e9, ['a']))
  expect(waits.view()[0]).toMatchObject({ maxMs: 1e9 })
})

test('two keys of one limit count as one start', () => {
  const waits = new WaitHistogram()
  waits.add(start(10, ['a', 'a']))
  expect(waits.view()).toMatchObject([{ starts: 1, waited: 1 }])
})

test('limits beyond the first thousand are not counted', () => {
  const waits = new WaitHistogram()
  for (let i = 0; i < 1100; i++) waits.add(start(1, [`limit-${i}`]))
  expect(waits.view()).toHaveLength(1000)
})
