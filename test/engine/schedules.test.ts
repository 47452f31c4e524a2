import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, onTestFinished, test } from 'vitest'
import { input, limit, type ScheduleOptions, task } from '../../src/exports/index.ts'
import { record, createEngineHarness } from './engine-harness.ts'

const tick = (run: () => unknown = () => undefined): ReturnType<typeof task<unknown>> => task('tick', { run })

describe('a schedule', () => {
  test('reads as it was registered', async () => {
    const { clock, start } = createEngineHarness()
    const report = task('report.send', input<{ to: string }>(), { queue: 'slow', run: () => undefined })
    const engine = await start({ tasks: [report] })
    const until = new Date(clock.now() + 3_600_000)
    const options = { cron: '0  9 * * *', timezone: 'Europe/Paris', name: 'daily', until, maxRuns: 9 } as const
    const schedule = await engine.schedule(report, { to: 'kim' }, options)
    expect(schedule).toEqual({
      name: 'daily',
      task: 'report.send',
      queue: 'slow',
      input: { to: 'kim' },
      cron: '0 9 * * *',
      timezone: 'Europe/Paris',
      every: null,
      until,
      maxRuns: 9,
      overlap: 'skip',
      onMissed: 'skip',
      state: 'completed',
      nextAt: null,
      lastAt: null,
      lastJob: null,
      runs: 0,
    })
    expect(await engine.schedules.get('daily')).toEqual(schedule)
    expect(await engine.schedules.list()).toEqual([schedule])
    expect(await engine.schedules.get('other')).toBeNull()
    expect(await engine.schedules.remove('other')).toBe(false)
    expect(await engine.schedules.remove('daily')).toBe(true)
    expect(await engine.schedules.list()).toEqual([])
  })

  test('that is paused stays so when another engine registers it again', async () => {
    const { start, clock } = createEngineHarness()
    const ping = tick()
    const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const store = `sqlite:${join(folder, 's.db')}`
    const engine = await start({ tasks: [ping], store })
    await engine.schedule(ping, { every: '1m' })
    expect(await engine.schedules.pause('tick')).toMatchObject({ state: 'paused', nextAt: null })
    await engine.stop()
    const again = await start({ tasks: [ping], store })
    expect(await again.schedule(ping, { every: '1m' })).toMatchObject({ state: 'paused' })
    await clock.advance('330s')
    expect(await again.schedules.get('tick')).toMatchObject({ state: 'paused', runs: 0 })
    expect(await again.schedules.resume('tick')).toMatchObject({ state: 'active' })
    await clock.advance('1m')
    expect(await again.schedules.get('tick')).toMatchObject({ runs: 1 })
    for (const verb of ['pause', 'resume', 'run'] as const) {
      expect(await again.schedules[verb]('other')).toBeNull()
      expect(await again.schedules[verb]('\ud800')).toBeNull()
      await expect(again.schedules[verb](1 as never)).rejects.toMatchObject({ code: 'option.invalid' })
    }
  })

  test('takes the name of its task, and no input where the task has none', async () => {
    const { start } = createEngineHarness()
    const ping = tick()
    const engine = await start({ tasks: [ping] })
    expect(await engine.schedule(ping, { every: '5m' })).toMatchObject({ name: 'tick', input: null, every: 300_000 })
    expect(await engine.schedule(ping, undefined, { every: '6m' })).toMatchObject({ name: 'tick', every: 360_000 })
  })

  test('says what its jobs are: queue, priority, limits, weight, meta and tags', async () => {
    const { clock, start, at } = createEngineHarness()
    const gate = limit('gate', { rate: 2, per: '10s' })
    const starts: number[] = []
    const ping = tick(() => starts.push(at()))
    const engine = await start({ tasks: [ping], limits: [gate], queues: { night: {} } })
    await engine.schedule(ping, {
      every: '1s',
      queue: 'night',
      priority: 7,
      limits: [gate.key('x')],
      weight: 2,
      meta: { by: 'kim' },
      tags: ['t'],
    })
    await clock.advance('1s')
    expect(await engine.jobs.list()).toMatchObject([
      { queue: 'night', priority: 7, meta: { by: 'kim' }, tags: ['t'], state: 'completed' },
    ])
    await clock.advance('10s')
    expect(starts).toEqual([1, 11])
  })

  test('shows its handler and every reader which due time a job stands for', async () => {
    const { clock, start } = createEngineHarness()
    const seen: unknown[] = []
    const ping = task('tick', { run: (_, ctx) => void seen.push(ctx.job.occurrence) })
    const engine = await start({ tasks: [ping] })
    const occurrence = { schedule: 'tick', dueAt: new Date(clock.now() + 1000) }
    await engine.schedule(ping, { every: '1s' })
    await clock.advance('1s')
    const enqueued = await ping.enqueue()
    await clock.advance(0)
    expect(seen).toEqual([occurrence, null])
    const { lastJob, lastAt } = (await engine.schedules.get('tick')) ?? {}
    expect(await engine.jobs.get(lastJob ?? '')).toMatchObject({ occurrence })
    expect(lastAt).toEqual(occurrence.dueAt)
    expect(await engine.jobs.get(enqueued.id)).not.toHaveProperty('occurrence')
  })

  test('emits events: fired, skipped, ended', async () => {
    const { clock, start } = createEngineHarness()
    const slow = task('slow', { run: () => clock.sleep('1500ms') })
    const engine = await start({ tasks: [slow] })
    const events = record(engine, 'schedule.fired', 'job.enqueued', 'schedule.skipped', 'schedule.ended')
    const due = (seconds: number): { schedule: string; dueAt: Date } => ({
      schedule: 'slow',
      dueAt: new Date(openedMs + seconds * 1000),
    })
    const openedMs = clock.now()
    await engine.schedule(slow, { every: '1s', maxRuns: 2 })
    await clock.advance('5s')
    expect(events).toEqual([
      { name: 'schedule.fired', event: { ...due(1), id: expect.any(String) as string, task: 'slow' } },
      { name: 'job.enqueued', event: { id: expect.any(String) as string, task: 'slow', queue: 'default' } },
      { name: 'schedule.skipped', event: { ...due(2), reason: 'overlap' } },
      { name: 'schedule.fired', event: { ...due(3), id: expect.any(String) as string, task: 'slow' } },
      { name: 'job.enqueued', event: { id: expect.any(String) as string, task: 'slow', queue: 'default' } },
      { name: 'schedule.ended', event: { schedule: 'slow', runs: 2 } },
    ])
  })

  test('calls no callback for an occurrence that it has to skip, but one for a run that failed', async () => {
    const { clock, start } = createEngineHarness()
    const errors: string[] = []
    let fails = false
    const gate = limit('gate', { rate: 1, per: '1s', burst: 1, maxWait: '500ms' })
    const ping = task('tick', {
      limits: [gate],
      retry: { attempts: 1 },
      run: () => {
        if (fails) throw new Error('no')
      },
      onError: (error) => void errors.push(error.message),
    })
    const engine = await start({ tasks: [ping] })
    const events = record(engine, 'schedule.skipped', 'job.discarded', 'rate_limit.dropped')
    await engine.schedule(ping, { every: '600ms' })
    await clock.advance('1800ms')
    expect([errors, events.map(({ name }) => name)]).toEqual([[], ['schedule.skipped']])
    fails = true
    await clock.advance('1800ms')
    expect(errors).toContain('no')
  })

  test('that is faster than a limit is warned of once, and one that is just as fast is not', async () => {
    const { start, warnings } = createEngineHarness()
    const gate = limit('gate', { rate: 2, per: '10s' })
    const spaced = limit('spaced', { every: '7s' })
    const daily = limit('daily', { window: 'fixed', max: 24, per: '1d', timezone: 'UTC' })
    const permits = limit('permits', { concurrency: 1 })
    const ping = tick()
    const engine = await start({ tasks: [ping], limits: [gate, spaced, daily, permits] })
    const register = (name: string, options: ScheduleOptions<unknown>): Promise<unknown> =>
      engine.schedule(ping, { name, ...options })
    await register('a', { every: '5s', limits: [gate] })
    await register('b', { every: '7s', limits: [spaced] })
    await register('c', { cron: '0 * * * *', limits: [daily] })
    await register('d', { every: '1s', limits: [permits] })
    expect(warnings).toEqual([])
    await register('a', { every: '4999ms', limits: [gate] })
    await register('b', { every: '6999ms', limits: [spaced] })
    await register('c', { cron: '*/59 * * * *', limits: [daily] })
    await register('e', { every: '9s', limits: [gate], weight: 2 })
    await register('e', { every: '8s', limits: [gate], weight: 2 })
    expect(warnings.map((text) => /^The schedule (\w) is faster than its limit (\w+)/.exec(text)?.slice(1))).toEqual([
      ['a', 'gate'],
      ['b', 'spaced'],
      ['c', 'daily'],
      ['e', 'gate'],
    ])
  })
})

describe('what cannot be scheduled is refused', () => {
  const refused: readonly [string, object, string][] = [
    ['no grid', {}, 'neither every nor cron is there'],
    ['two grids', { every: '1s', cron: '* * * * *' }, 'every and cron exclude each other'],
    ['a cron that no date fulfils', { cron: '0 0 31 4 *' }, 'never due'],
    ['an option that is not known', { every: '1s', delay: '1s' }, 'has no option "delay"'],
    ['a count of runs of 0', { every: '1s', maxRuns: 0 }, 'maxRuns is invalid: 0'],
    ['an end that is no date', { every: '1s', until: new Date(Number.NaN) }, 'until is invalid'],
    ['an overlap that is not known', { every: '1s', overlap: 'wait' }, "overlap is invalid: 'wait'"],
    ['an onMissed that is not known', { every: '1s', onMissed: 'all' }, "onMissed is invalid: 'all'"],
    ['an empty name', { every: '1s', name: '' }, 'name'],
    ['immediately that is no boolean', { every: '1s', immediately: 'yes' }, 'immediately'],
  ]

  test.each(refused)('%s', async (_, options, message) => {
    const { create } = createEngineHarness()
    const ping = tick()
    const engine = create({ tasks: [ping] })
    await expect(engine.schedule(ping, options as ScheduleOptions<unknown>)).rejects.toMatchObject({
      code: 'schedule.invalid',
      message: expect.stringContaining(message) as string,
    })
    expect(await engine.schedules.list()).toEqual([])
  })

  test('a second call without a name for another input, since one would replace the other', async () => {
    const { create } = createEngineHarness()
    const sync = task('sync', input<{ tenant: string }>(), { run: () => undefined })
    const engine = create({ tasks: [sync] })
    await engine.schedule(sync, { tenant: 'a' }, { every: '1h' })
    await engine.schedule(sync, { tenant: 'a' }, { every: '2h' })
    await expect(engine.schedule(sync, { tenant: 'b' }, { every: '1h' })).rejects.toMatchObject({
      code: 'schedule.invalid',
      message: expect.stringContaining('Name each of them') as string,
    })
    await engine.schedule(sync, { tenant: 'b' }, { every: '1h', name: 'sync b' })
    expect((await engine.schedules.list()).map(({ name }) => name)).toEqual(['sync', 'sync b'])
  })

  test('a task that is not listed, and anything on an engine that was stopped', async () => {
    const { create, stop } = createEngineHarness()
    const ping = tick()
    const other = task('other', { run: () => undefined })
    const engine = create({ tasks: [ping] })
    await expect(engine.schedule(other, { every: '1s' })).rejects.toMatchObject({ code: 'task.unknown' })
    await stop(engine)
    await expect(engine.schedule(ping, { every: '1s' })).rejects.toMatchObject({ code: 'engine.stopped' })
  })

  test('what the compiler sees', async () => {
    const { create } = createEngineHarness()
    const sync = task('sync', input<{ tenant: string }>(), { run: () => undefined })
    const engine = create({ tasks: [sync] })
    // @ts-expect-error the input is required
    await expect(engine.schedule(sync, { every: '1s' })).resolves.toBeDefined()
    // @ts-expect-error one of every and cron
    await expect(engine.schedule(sync, { tenant: 'a' }, { name: 'x' })).rejects.toThrow(
      'neither every nor cron is there',
    )
    // @ts-expect-error a time zone belongs to a cron
    await expect(engine.schedule(sync, { tenant: 'a' }, { name: 'y', every: '1s', timezone: 'UTC' })).rejects.toThrow()
  })
})

describe('a schedule in a time zone that this process does not know', () => {
  test('is left to others, and holds up neither jobs nor other schedules', async () => {
    const { clock, start, errors } = createEngineHarness()
    const directory = mkdtempSync(join(tmpdir(), 'sluice-zones-'))
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    const path = join(directory, 'jobs.db')
    const told: string[] = []
    const job = task('tick', input<string>(), { run: (what) => void told.push(what) })
    const engine = await start({ store: `sqlite:${path}`, tasks: [job] })
    await engine.schedule(job, 'mars', { cron: '* * * * *', name: 'mars' })
    await engine.schedule(job, 'earth', { cron: '* * * * *', name: 'earth' })
    const other = new DatabaseSync(path)
    const far = `json_set(spec, '$.recurrence.timezone', 'Mars/Olympus')`
    other.exec(`UPDATE schedules SET spec = ${far} WHERE name = 'mars'`)
    await clock.advance('60s')
    await job.enqueue('job')
    await clock.advance('60s')
    expect(told).toEqual(['earth', 'job', 'earth'])
    expect(errors).toEqual([])
    other.exec(`UPDATE schedules SET spec = json_set(spec, '$.recurrence.timezone', 'UTC') WHERE name = 'mars'`)
    other.close()
    // It is still due, for a process that knows the zone.
    await start({ store: `sqlite:${path}`, tasks: [job] })
    await clock.advance('1s')
    expect(told).toEqual(['earth', 'job', 'earth', 'mars'])
  })
})
