import { describe, expect, test } from 'vitest'
import { createManualClock } from '../../src/exports/testing.ts'
import { HttpHarness, type Json, storeFile } from './http-harness.ts'

const MINUTELY = {
  name: 'c',
  expression: '* * * * *',
  job_template: { type: 'tick', args: [1, 2], options: { queue: 'q', visibility_timeout_ms: 300_000 } },
}

describe('cron', () => {
  test('fires although no handler runs here, and not while the last one is unfinished', async () => {
    const d = await HttpHarness.open()
    await d.post('/ojs/v1/cron', MINUTELY)
    await d.clock.advance('65s')
    const [id = ''] = await d.fetch()
    expect(await d.job(id)).toMatchObject({ type: 'tick', args: [1, 2], state: 'active' })
    await d.clock.advance('65s')
    expect(await d.fetch()).toEqual([])
    await d.ack(id)
    await d.clock.advance('60s')
    expect(await d.fetch()).toHaveLength(1)
  })

  test('with overlap_policy allow fires all the same', async () => {
    const d = await HttpHarness.open()
    await d.post('/ojs/v1/cron', { ...MINUTELY, overlap_policy: 'allow' })
    await d.clock.advance('185s')
    expect(await d.fetch({ count: 9 })).toHaveLength(3)
  })

  test('a waiting fetch is answered when it fires', async () => {
    const d = await HttpHarness.open()
    await d.post('/ojs/v1/cron', MINUTELY)
    const starts = d.work(['q'])
    await d.clock.advance('121s')
    expect(starts.map(({ at }) => at)).toEqual([60, 120])
  })

  test('is registered in both forms, changed by its name, and keeps when it was created over a restart', async () => {
    const store = storeFile()
    const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
    const first = await HttpHarness.open({ engine: { store }, clock })
    const { body } = await first.post('/ojs/v1/cron', {
      name: 'c',
      cron: '@daily',
      type: 'tick',
      args: [],
      timezone: 'Asia/Tokyo',
    })
    expect(body['cron_job']).toMatchObject({ cron: '@daily', type: 'tick', status: 'active', timezone: 'Asia/Tokyo' })
    expect(body['cron']).toMatchObject({ enabled: true, next_run_at: '2026-01-01T15:00:00.000Z' })
    await first.close()
    await clock.advance('1h')
    const second = await HttpHarness.open({ engine: { store }, clock })
    await second.post('/ojs/v1/cron', { name: 'c', cron: '@hourly', type: 'tick', args: [] })
    const listed = (await second.get('/ojs/v1/cron')).body['crons'] as Json[]
    expect(listed).toMatchObject([{ expression: '@hourly', created_at: '2026-01-01T00:00:00.000Z' }])
  })

  test.each([
    [{ expression: 'not a cron' }, 400],
    [{ expression: '0 0 0 0 0 0 0' }, 400],
    [{ expression: '0 0 30 2 *' }, 400],
    [{ expression: '@daily', timezone: 'Nowhere/There' }, 400],
    [{ expression: undefined }, 400],
    [{ overlap_policy: 'cancel_previous' }, 422],
    [{ job_template: { type: 'tick', args: [], options: { scheduled_at: '+PT1S' } } }, 422],
  ])('%j is refused with %d', async (wrong, status) => {
    const d = await HttpHarness.open()
    const answer = await d.post('/ojs/v1/cron', { ...MINUTELY, ...wrong })
    expect(answer.status).toBe(status)
    expect((await d.get('/ojs/v1/cron')).body['crons']).toEqual([])
  })
})
