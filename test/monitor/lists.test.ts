import { describe, expect, test } from 'vitest'
import { graph } from '../../src/exports/flows.ts'
import { input, task } from '../../src/exports/index.ts'
import type { Json } from '../http/http-harness.ts'
import { everyStore } from '../stores.ts'
import { MonitorHarness } from './monitor-harness.ts'

const KINDS = await everyStore('the lists of the monitor')
const tick = task('tick', { run: () => undefined })
let release = (): void => undefined
const long = task('long', input<{ n: number }>(), {
  run: () => new Promise<void>((ended) => (release = ended)),
})
const review = graph('review', input<{ pr: number }>())
  .step('diff', () => 1)
  .after('diff')
  .step('lint', () => 2)
  .after('diff', 'lint')
  .step('post', () => 3)
  .output(({ post }) => post)

describe.each(KINDS)('on $name', (kind) => {
  test('a refusal quotes the start of a long name', async () => {
    const m = await MonitorHarness.open({ store: kind.create() })
    for (const [list, thing] of [
      ['queues', 'queue'],
      ['limits', 'limit'],
      ['schedules', 'schedule'],
    ])
      expect(await m.send('GET', `/${list}/${'x'.repeat(1000)}`)).toMatchObject({
        status: 404,
        body: { error: { message: `The ${thing} ${'x'.repeat(60)}… (1000 characters) does not exist.` } },
      })
  })

  test('a worker has its slots and the jobs that it runs', async () => {
    const m = await MonitorHarness.open({
      store: kind.create(),
      tasks: [long],
      queues: { default: { concurrency: 3 } },
    })
    await m.sluice.enqueue(long, { n: 1 })
    await m.clock.advance('1s')
    const [worker] = (await m.get('/workers'))['workers'] as Json[]
    expect(worker).toMatchObject({
      name: null,
      pid: process.pid,
      directive: 'running',
      alive: true,
      slots: 3,
      active: 1,
      running: [{ task: 'long', queue: 'default', attempt: 1 }],
    })
    release()
  })

  test('a schedule is paused, runs once more at a request, and is resumed; each change is on record', async () => {
    const m = await MonitorHarness.open({ store: kind.create(), tasks: [tick] })
    await m.sluice.schedule(tick, undefined, { every: '10s', name: 'often' })
    const put = (verb: string): Promise<{ status: number; body: Json }> =>
      m.send('PUT', `/schedules/often/${verb}`, { reason: 'a test' })
    expect(await put('pause')).toMatchObject({ status: 200, body: { state: 'paused', nextAt: null, next: [] } })
    await m.clock.advance('25s')
    expect(await m.get('/schedules/often')).toMatchObject({ state: 'paused', runs: 0, missed: [] })
    const ran = await m.send('POST', '/schedules/often/run')
    expect(ran.status).toBe(201)
    await m.clock.advance('1s')
    expect(await m.sluice.jobs.get(ran.body['id'] as string)).toMatchObject({ task: 'tick', state: 'completed' })
    expect(await put('resume')).toMatchObject({ status: 200, body: { state: 'active', runs: 0 } })
    await m.clock.advance('10s')
    expect(await m.get('/schedules/often')).toMatchObject({ state: 'active', runs: 1 })
    for (const [method, verb] of [
      ['PUT', 'pause'],
      ['PUT', 'resume'],
      ['POST', 'run'],
    ] as const)
      expect((await m.send(method, `/schedules/other/${verb}`)).status).toBe(404)
    const { entries } = (await m.get('/audit')) as { entries: { action: string }[] }
    expect(entries.map(({ action }) => action)).toEqual([
      'monitorResumeSchedule',
      'monitorRunSchedule',
      'monitorPauseSchedule',
    ])
  })

  test('a schedule has its next due times, and those that passed without a job', async () => {
    const store = kind.create()
    const m = await MonitorHarness.open({ store, tasks: [tick] })
    await m.sluice.schedule(tick, undefined, { every: '10s', name: 'often' })
    await m.sluice.schedule(tick, undefined, { cron: '0 0 1 1 *', name: 'yearly' })
    await m.clock.advance('21s')
    const named = async (name: string): Promise<Json> =>
      ((await m.get('/schedules'))['schedules'] as Json[]).find((each) => each['name'] === name) as Json
    const before = await named('often')
    expect(before).toMatchObject({ runs: 2, missed: [] })
    expect(before['next']).toHaveLength(5)
    expect((await named('yearly'))['missed']).toEqual([])

    // Nothing runs the next job: while it waits, later occurrences are skipped.
    await m.sluice.stop({ within: 0 })
    const alone = await MonitorHarness.open({ store, queues: {}, clock: m.clock }, { clock: m.clock })
    await m.clock.advance('25s')
    const often = ((await alone.get('/schedules'))['schedules'] as Json[]).find(({ name }) => name === 'often')
    expect(often).toMatchObject({ runs: 3, missed: ['2026-01-01T00:00:40.000Z'] })
  })

  test('the steps of a graph say which steps they come after', async () => {
    const m = await MonitorHarness.open({ store: kind.create(), workflows: [review] })
    const { id } = await review.start({ pr: 1 })
    await m.clock.advance('5s')
    const { steps } = await m.get(`/flows/${id}`)
    expect((steps as Json[]).map((each): unknown[] => [each['name'], each['after']])).toEqual([
      ['diff', []],
      ['lint', ['diff']],
      ['post', ['diff', 'lint']],
    ])
  })
})
