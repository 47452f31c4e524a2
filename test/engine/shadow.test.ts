import { describe, expect, test } from 'vitest'
import { limit, task } from '../../src/exports/index.ts'
import { createLimiter } from '../../src/exports/limiter.ts'
import { createEngineHarness } from './engine-harness.ts'

describe('a limit in shadow mode', () => {
  test('emits what it would have done with each job, shows it, and is enforced by an override at once', async () => {
    const { clock, start } = createEngineHarness()
    const crm = limit('crm', { rate: 10, per: '1s', burst: 1, mode: 'shadow' })
    let runs = 0
    const call = task('call', { limits: [crm], run: () => void runs++ })
    const engine = await start({ tasks: [call] })
    const told: { id: string; delayMs: number | null }[] = []
    engine.on('rate_limit.shadow', ({ id, task: name, limit: of, delayMs, drops }) => {
      expect([name, of, drops]).toEqual(['call', 'crm', false])
      told.push({ id, delayMs })
    })
    const jobs = await call.enqueueMany(Array.from({ length: 5 }, () => undefined))
    await clock.advance(0)
    expect(runs).toBe(5)
    expect(told).toEqual([100, 200, 300, 400].map((delayMs, i) => ({ id: jobs[i + 1]!.id, delayMs })))
    const [bucket] = await engine.limits.inspect('crm')
    expect(bucket?.shadow).toEqual({ delayed: 4, dropped: 0, meanDelayMs: 250, worstDelayMs: 400, waitMs: 500 })
    await engine.limits.override('crm', undefined, { mode: 'enforce' })
    await call.enqueueMany(Array.from({ length: 20 }, () => undefined))
    await clock.advance('1s')
    expect(runs).toBe(15)
    expect((await engine.forecast('crm')).jobs).toBe(10)
    await engine.limits.override('crm', undefined, { mode: 'shadow' })
    await clock.advance(0)
    expect(runs).toBe(25)
  })

  test('takes jobs that weigh more than it could ever admit', async () => {
    const { clock, start } = createEngineHarness()
    const crm = limit('crm', { rate: 10, per: '1s', mode: 'shadow' })
    const call = task('call', { limits: [crm.weight(25)], run: () => 'done' })
    await start({ tasks: [call] })
    const job = await call.enqueue(undefined)
    await clock.advance(0)
    expect(await job.result()).toBe('done')
  })

  test('is refused by a limiter without jobs, defined or by override', async () => {
    const open = (mode: 'enforce' | 'shadow') =>
      createLimiter({ backend: 'memory:', limits: [limit('crm', { rate: 1, per: '1s', mode })] })
    expect(() => open('shadow')).toThrow("limit crm has mode 'shadow'")
    const limiter = open('enforce')
    await expect(limiter.override('crm', { mode: 'shadow' })).rejects.toMatchObject({ code: 'policy.invalid' })
    await limiter.close()
  })
})
