import { describe, expect, test } from 'vitest'
import { input, limit, type Policy, task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

const SECOND: Policy = { window: 'sliding', max: 4, per: '1s' }

describe('a sliding window without a guard', () => {
  test.each<[string, Policy, number]>([
    ['is 2 % longer', SECOND, 1.02],
    ['and with guard: 0 is not', { ...SECOND, guard: 0 }, 1],
  ])('%s: named, inline and of a queue', async (_, policy, expected) => {
    const { start, clock, at } = createEngineHarness()
    const starts: Record<string, number[]> = { named: [], inline: [], queue: [] }
    const run = (name: string) => (): void => void starts[name]?.push(at())
    const named = task('work.named', input<number>(), { limits: [limit('named', policy)], run: run('named') })
    const inline = task('work.inline', input<number>(), { limits: [policy], run: run('inline') })
    const queued = task('work.queued', input<number>(), { queue: 'own', run: run('queue') })
    await start({
      tasks: [named, inline, queued],
      queues: { default: {}, own: { limits: [limit('own', policy)] } },
    })
    for (const each of [named, inline, queued]) await each.enqueueMany([1, 2, 3, 4, 5])
    await clock.advance('3s')
    for (const each of Object.values(starts))
      expect(each.map((s) => s.toFixed(6))).toEqual([0, 0, 0, 0, expected].map((s) => s.toFixed(6)))
  })

  test('never has more than max in any period at handlers that are up to 20 ms late', async () => {
    const { start, clock } = createEngineHarness()
    const arrivals: number[] = []
    const work = task('work.item', input<number>(), {
      limits: [limit('crm', SECOND)],
      async run(n) {
        await clock.sleep((n * 13) % 21)
        arrivals.push(clock.monotonicUs())
      },
    })
    await start({ tasks: [work] })
    await work.enqueueMany(Array.from({ length: 80 }, (_, i) => i))
    await clock.advance('20s')
    expect(arrivals).toHaveLength(80)
    arrivals.sort((a, b) => a - b)
    for (const [i, fromUs] of arrivals.entries())
      expect(arrivals[i + 4] ?? Infinity).toBeGreaterThanOrEqual(fromUs + 1_000_000)
  })

  test('keeps the default under an override of its period, is listed and forecast with it', async () => {
    const { start } = createEngineHarness()
    const crm = limit('crm', SECOND)
    const work = task('work.item', input<number>(), { limits: [crm], run: () => undefined })
    const engine = await start({ tasks: [work] })
    expect((await engine.limits.list()).find(({ name }) => name === 'crm')?.policy).toMatchObject({
      rule: { periodUs: 1_020_000 },
      guardUs: 20_000,
      defaultGuard: true,
    })
    expect((await engine.forecast(crm, { backlog: 5 })).drainMs).toBe(1020)
    expect((await engine.forecast(crm, { backlog: 5, policy: { ...SECOND, guard: 0 } })).drainMs).toBe(1000)
  })

  test.each([
    [{ per: '500ms' }, 0.51],
    [{ per: '2s' }, 2.02],
    [{ guard: 0 }, 1],
  ] as const)('takes the default of its new period under an override by %j', async (change, expected) => {
    const { start, clock, at } = createEngineHarness()
    const starts: number[] = []
    const crm = limit('crm', SECOND)
    const work = task('work.item', input<number>(), { limits: [crm], run: () => void starts.push(at()) })
    const engine = await start({ tasks: [work] })
    await engine.limits.override(crm, undefined, change)
    await work.enqueueMany([1, 2, 3, 4, 5])
    await clock.advance('3s')
    expect(starts[4]?.toFixed(6)).toBe(expected.toFixed(6))
  })
})
