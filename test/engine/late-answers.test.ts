// Starts of a process that hears from its server late.
import { expect, onTestFinished, test } from 'vitest'
import { limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { PostgresProxy } from '../postgres-proxy.ts'
import { onPostgres } from '../stores.ts'

const postgres = await onPostgres('starts ahead with late answers')
const JOBS = 20
const GAP_MS = 20

test.skipIf(!postgres)('starts ahead whose claims are answered 30 ms late are never early, and run once', async () => {
  const proxy = await PostgresProxy.before(postgres!.create())
  const begunMs = new Map<string, number[]>()
  const work = task('late.answer', {
    limits: [limit('strict', { rate: 1000 / GAP_MS, per: '1s', burst: 1 })],
    run: (_, { job }) => void begunMs.set(job.id, [...(begunMs.get(job.id) ?? []), Date.now()]),
  })
  const engine = new Sluice({ store: proxy.url, tasks: [work], logger: silentLogger })
  onTestFinished(() => engine.stop({ within: 0 }))
  await engine.start()
  await (await work.enqueue()).result()
  // Later connections answer at once; those that claim stand.
  for (const link of proxy.links) link.delayMs = 30
  const jobs = await work.enqueueMany(Array.from({ length: JOBS }, () => undefined))
  for (const job of jobs) await job.result({ timeout: '60s' })
  const stored = await Promise.all(jobs.map(({ id }) => engine.jobs.get(id)))
  const instants = stored.map((job) => job!.startedAt!.getTime())
  // A start that came too late goes back, and comes again behind others.
  const inOrder = instants.toSorted((a, b) => a - b)
  const gaps = inOrder.slice(1).map((at, i) => at - inOrder[i]!)
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(GAP_MS - 1)
  // Some were charged at the exact instant after the one before.
  expect(gaps.filter((gap) => gap === GAP_MS).length).toBeGreaterThan(0)
  for (const [i, { id }] of jobs.entries()) {
    expect(begunMs.get(id)).toHaveLength(1)
    expect(begunMs.get(id)![0]).toBeGreaterThanOrEqual(instants[i]! - 1)
  }
  expect((await engine.limits.inspect('strict')).map(({ debt }) => debt)).toEqual([0])
})

test.skipIf(!postgres)('starts after late ones keep to a sliding window at the handlers', async () => {
  const proxy = await PostgresProxy.before(postgres!.create())
  const begunMs: number[] = []
  const other = task('late.first', { run: () => undefined })
  const work = task('late.window', {
    limits: [limit('window', { window: 'sliding', max: 4, per: '300ms' })],
    run() {
      begunMs.push(performance.now())
      for (const link of proxy.links) link.delayMs = 0
    },
  })
  const engine = new Sluice({ store: proxy.url, tasks: [other, work], logger: silentLogger })
  onTestFinished(() => engine.stop({ within: 0 }))
  await engine.start()
  await (await other.enqueue()).result()
  for (const link of proxy.links) link.delayMs = 100
  const jobs = await work.enqueueMany(Array.from({ length: 16 }, () => undefined))
  for (const job of jobs) await job.result({ timeout: '60s' })
  const apart = begunMs.slice(4).map((at, i) => at - begunMs[i]!)
  // Without regard for the first ones, the next four would follow them after some 200 ms.
  expect(Math.min(...apart)).toBeGreaterThan(280)
})
