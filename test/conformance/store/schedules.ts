import { describe, expect, test } from 'vitest'
import { limit } from '../../../src/exports/index.ts'
import { useOf } from '../../../src/policy/limits/define.ts'
import type { NewSchedule, ScheduleNews, ScheduleRecord } from '../../../src/jobs/schedule.ts'
import type { Scheduled } from '../../../src/store/contract/schedules.ts'
import type { Claim } from '../../../src/store/contract/store.ts'
import type { StoreBackend } from './backend.ts'
import { VirtualClock } from './virtual-clock.ts'
import { type ClaimSpec, eachHarness, usesOf, type StoreHarness } from './store-harness.ts'

/** The fields of a schedule that the suite names; all others have a default. Times are ms since the start. */
interface Spec extends Partial<Omit<NewSchedule, 'job' | 'untilMs'>> {
  readonly every?: number
  readonly cron?: string
  readonly limits?: readonly string[]
  readonly until?: number
  readonly input?: string
}

const LONG_US = 1e15

/** Recurring work. */
export function schedules(backend: StoreBackend): void {
  describe('registering', () => registering(backend))
  describe('due times', () => dueTimes(backend))
  describe('missed occurrences', () => missed(backend))
  describe('a pause', () => pausing(backend))
  describe('limits of an occurrence', () => limited(backend))
  if (backend.reopen) describe('several stores on one storage', () => shared(backend))
}

function register(w: StoreHarness, name: string, spec: Spec = {}): Promise<Scheduled> {
  const { every = 1000, cron, limits = [], until, input = 'null', ...given } = spec
  const startMs = w.clock.now() - w.clock.monotonicUs() / 1000
  return w.store.schedule({
    name,
    recurrence: cron === undefined ? { kind: 'every', everyUs: every * 1000 } : { kind: 'cron', cron, timezone: 'UTC' },
    immediately: false,
    untilMs: until === undefined ? null : startMs + until,
    maxRuns: null,
    overlap: 'skip',
    onMissed: 'skip',
    ...given,
    job: { task: name, queue: 'q', priority: 0, input, uses: usesOf(limits), maxAttempts: 3, extra: null },
  })
}

async function stored(w: StoreHarness, name: string): Promise<ScheduleRecord> {
  const found = (await w.store.schedules()).find((each) => each.name === name)
  if (!found) throw new RangeError(`There is no schedule ${name}`)
  return found
}

/** When a schedule is due next, in ms since the start. */
async function next(w: StoreHarness, name: string): Promise<number | null> {
  const { nextDueMs } = await stored(w, name)
  return nextDueMs === null ? null : Math.round(nextDueMs - w.startUs / 1000)
}

/** A claim's news of schedules, in short: `name!due` fired, `name-due reason` skipped, `name. runs` ended. */
function short(w: StoreHarness, news: readonly ScheduleNews[]): string[] {
  const due = (ms: number): number => Math.round(ms - w.startUs / 1000)
  return news.map((each) => {
    if (each.kind === 'ended') return `${each.schedule}. ${each.runs}`
    const { schedule, dueMs } = each.occurrence
    return each.kind === 'fired' ? `${schedule}!${due(dueMs)}` : `${schedule}-${due(dueMs)} ${each.reason}`
  })
}

async function claimNews(w: StoreHarness, atMs: number, spec: ClaimSpec = {}): Promise<string[]> {
  w.at(atMs)
  return short(w, (await w.claim(spec)).schedules)
}

/** Claims at each of these instants and completes what starts; answers `task@ms`. */
async function runs(w: StoreHarness, ...instants: readonly number[]): Promise<string[]> {
  const starts: string[] = []
  for (const ms of instants) {
    w.at(ms)
    const { jobs } = await w.claim()
    for (const { task } of jobs) {
      starts.push(`${task}@${ms}`)
      await w.complete(task)
    }
  }
  return starts
}

function registering(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a schedule that is not there is not removed, and none are listed', async () => {
    expect(await harness().store.schedules()).toEqual([])
    expect(await harness().store.unschedule('s')).toBe(false)
  })

  test('what was registered can be read back, with its next due time', async () => {
    const w = harness()
    w.at(5)
    const { kind, schedule } = await register(w, 's', { maxRuns: 3, until: 9000, limits: ['r:k*2'], input: '{"a":1}' })
    expect(kind).toBe('created')
    expect(schedule).toEqual(await stored(w, 's'))
    expect(schedule).toEqual({
      name: 's',
      recurrence: { kind: 'every', everyUs: 1_000_000 },
      immediately: false,
      untilMs: w.startUs / 1000 + 9000,
      maxRuns: 3,
      overlap: 'skip',
      onMissed: 'skip',
      job: {
        task: 's',
        queue: 'q',
        priority: 0,
        input: '{"a":1}',
        uses: [{ limit: 'r', key: 'k', weight: 2 }],
        maxAttempts: 3,
        extra: null,
      },
      nextDueMs: w.startUs / 1000 + 1005,
      lastDueMs: null,
      lastJob: null,
      runs: 0,
      paused: false,
    })
  })

  test('the same again changes nothing, not even an immediate first occurrence', async () => {
    const w = harness()
    await register(w, 's', { immediately: true })
    expect(await runs(w, 0, 300)).toEqual(['s@0'])
    expect((await register(w, 's', { immediately: true })).kind).toBe('unchanged')
    expect(await runs(w, 400, 1000)).toEqual(['s@1000'])
  })

  test('other content on the same grid keeps the due times and the count of runs', async () => {
    const w = harness()
    await register(w, 's')
    expect(await runs(w, 1000)).toEqual(['s@1000'])
    w.at(1700)
    expect(await register(w, 's', { input: '2' })).toMatchObject({ kind: 'updated', schedule: { runs: 1 } })
    w.at(2000)
    expect((await w.claim()).jobs).toMatchObject([{ task: 's', input: '2' }])
  })

  test('another grid begins again, and the count of runs goes on', async () => {
    const w = harness()
    await register(w, 's')
    expect(await runs(w, 1000)).toEqual(['s@1000'])
    w.at(1700)
    await register(w, 's', { every: 500, immediately: true, maxRuns: 2 })
    expect(await runs(w, 1700, 2000, 2199.999, 2200, 2700)).toEqual(['s@2200'])
    expect(await stored(w, 's')).toMatchObject({ runs: 2, nextDueMs: null })
  })

  test('a series that has ended stays so, unless its end is moved', async () => {
    const w = harness()
    await register(w, 's', { maxRuns: 1 })
    expect(await runs(w, 1000, 2000)).toEqual(['s@1000'])
    expect((await register(w, 's', { maxRuns: 1 })).schedule.nextDueMs).toBeNull()
    expect(await runs(w, 3000)).toEqual([])
    w.at(3300)
    await register(w, 's', { maxRuns: 2 })
    expect(await runs(w, 4000, 5000)).toEqual(['s@4000'])
  })

  test('a series whose end has passed already never begins', async () => {
    const w = harness()
    w.at(5000)
    expect((await register(w, 's', { until: 4000, immediately: true })).schedule.nextDueMs).toBeNull()
    expect(await runs(w, 6000)).toEqual([])
  })

  test('a removed schedule fires no more, and what it has enqueued goes on', async () => {
    const w = harness()
    await register(w, 's')
    w.at(1000)
    await w.claim({ slots: 0 })
    expect(await w.store.unschedule('s')).toBe(true)
    expect(await runs(w, 1500, 2000)).toEqual(['s@1500'])
    expect(await w.store.schedules()).toEqual([])
  })
}

function dueTimes(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('an occurrence starts at its due time, and claims name the next one exactly', async () => {
    const w = harness()
    await register(w, 's', { every: 333 })
    const waits = async (): Promise<(number | null)[]> => {
      const claim = await w.claim()
      for (const { task } of claim.jobs) await w.complete(task)
      return [claim.jobs.length, w.ms(claim.nextWakeUs), w.ms(claim.nextFireUs)]
    }
    expect(await waits()).toEqual([0, 333, 333])
    w.at(332.999)
    expect(await waits()).toEqual([0, 333, 333])
    w.at(333)
    expect(await waits()).toEqual([1, 666, 666])
  })

  test('occurrences that are due at one instant fire in the order of their names', async () => {
    const w = harness()
    for (const name of ['b', 'c', 'a']) await register(w, name)
    expect(await claimNews(w, 1000)).toEqual(['a!1000', 'b!1000', 'c!1000'])
  })

  test('the job names its schedule and its due time', async () => {
    const w = harness()
    await register(w, 's')
    w.at(1000)
    const [job] = (await w.claim()).jobs
    const occurrence = { schedule: 's', dueMs: w.startUs / 1000 + 1000 }
    expect(job).toMatchObject({ task: 's', occurrence })
    expect(await w.store.get(job!.id)).toMatchObject({ occurrence })
    expect(await stored(w, 's')).toMatchObject({ lastJob: job!.id, lastDueMs: occurrence.dueMs, runs: 1 })
  })

  test('an occurrence becomes a job on time though no slot is free', async () => {
    const w = harness()
    await register(w, 's')
    w.at(1000)
    const claim = await w.claim({ slots: 0 })
    expect(short(w, claim.schedules)).toEqual(['s!1000'])
    expect(w.ms(claim.nextFireUs)).toBe(2000)
    expect(await runs(w, 1400)).toEqual(['s@1400'])
  })

  test('one that is due before the last has ended is skipped; the due times stay where they are', async () => {
    const w = harness()
    await register(w, 's')
    expect(await claimNews(w, 1000)).toEqual(['s!1000'])
    expect(await claimNews(w, 2000)).toEqual(['s-2000 overlap'])
    await w.retry('s', 5000)
    expect(await claimNews(w, 3000)).toEqual(['s-3000 overlap'])
    expect(await claimNews(w, 7000)).toEqual(['s-4000 missed', 's-7000 overlap'])
    await w.complete('s')
    expect(await claimNews(w, 8000)).toEqual(['s!8000'])
    expect((await stored(w, 's')).runs).toBe(2)
  })

  test('overlap allowed: both run', async () => {
    const w = harness()
    await register(w, 's', { overlap: 'allow' })
    w.at(1000)
    expect(await w.start()).toEqual(['s'])
    w.at(2000)
    expect(await w.start()).toEqual(['s'])
  })

  test('the series ends with its last run', async () => {
    const w = harness()
    await register(w, 's', { maxRuns: 2, overlap: 'allow' })
    expect(await claimNews(w, 1000)).toEqual(['s!1000'])
    expect(await claimNews(w, 2000)).toEqual(['s!2000', 's. 2'])
    expect((await w.claim()).nextFireUs).toBeNull()
    expect(await claimNews(w, 3000)).toEqual([])
  })

  test('the end of a series is exclusive', async () => {
    const w = harness()
    await register(w, 's', { until: 2000 })
    expect(await claimNews(w, 1000)).toEqual(['s!1000', 's. 1'])
    await register(w, 't', { until: 3001 })
    expect(await claimNews(w, 2000)).toEqual(['t!2000'])
    await w.complete('t')
    expect(await claimNews(w, 3000)).toEqual(['t!3000', 't. 2'])
  })

  test('what is fired late is not fired after the end', async () => {
    const w = harness()
    await register(w, 's', { until: 1001 })
    expect(await claimNews(w, 1001)).toEqual(['s. 0'])
  })

  test('an occurrence that is given back before it began still ends with its series, its retry does not', async () => {
    const w = harness()
    await register(w, 'begun', { until: 1500 })
    await register(w, 'unbegun', { until: 1500 })
    w.at(1000)
    const { jobs } = await w.claim()
    expect(jobs.map(({ task }) => task)).toEqual(['begun', 'unbegun'])
    await w.store.release(w.worker, jobs.slice(1))
    await w.retry('begun')
    w.at(2000)
    const second = await w.claim()
    expect(second.jobs.map(({ task, attempt }) => [task, attempt])).toEqual([['begun', 2]])
    expect(second.rejected.map(({ task }) => task)).toEqual(['unbegun'])
    // A retry may be given back, too.
    await w.store.release(w.worker, second.jobs)
    expect(await w.start()).toEqual(['begun'])
  })

  test('even distances follow the steady clock, a cron and the end of a series the wall clock', async () => {
    const w = harness()
    await register(w, 'even', { every: 60_000 })
    await register(w, 'cron', { cron: '* * * * *' })
    w.clock.stepWall(30_000)
    const claim = await w.claim()
    expect(w.ms(claim.nextFireUs)).toBe(30_000)
    expect(await claimNews(w, 30_000)).toEqual(['cron!60000'])
    w.clock.stepWall(-30_000)
    expect(await claimNews(w, 60_000)).toEqual(['even!60000'])
  })

  test('a wall clock that goes back does not make a cron fire twice', async () => {
    const w = harness()
    await register(w, 'cron', { cron: '* * * * *' })
    expect(await claimNews(w, 60_000)).toEqual(['cron!60000'])
    await w.complete('cron')
    w.clock.stepWall(-30_000)
    expect(await claimNews(w, 90_000)).toEqual([])
    expect(w.ms((await w.claim()).nextFireUs)).toBe(150_000)
    expect(await claimNews(w, 150_000)).toEqual(['cron!120000'])
  })

  test('many that are due at once are all fired', async () => {
    const w = harness()
    for (let i = 0; i < 1100; i++) await register(w, `s${i}`, { every: 1000, overlap: 'allow' })
    w.at(1000)
    let fired = 0
    for (let claim: Claim | null = null; claim === null || claim.schedules.length > 0;) {
      claim = await w.claim({ slots: 0 })
      fired += claim.schedules.length
      if (fired < 1100) expect(w.ms(claim.nextWakeUs)).toBe(1000)
    }
    expect(fired).toBe(1100)
  })
}

function missed(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  /** No worker is live between these two instants. */
  async function absence(w: StoreHarness, fromMs: number, toMs: number): Promise<ClaimSpec> {
    w.at(fromMs)
    await w.store.leave(w.worker)
    w.at(toMs)
    return { worker: await w.store.join(['q'], LONG_US) }
  }

  test('skip: they are left out, and the series goes on with the next due time', async () => {
    const w = harness()
    await register(w, 's', { every: 10_000 })
    const spec = await absence(w, 15_000, 34_000)
    expect(await claimNews(w, 34_000, spec)).toEqual(['s-10000 missed'])
    expect(await next(w, 's')).toBe(40_000)
    expect(await claimNews(w, 40_000, spec)).toEqual(['s!40000'])
  })

  test('skip: a break of a moment misses nothing', async () => {
    const w = harness()
    await register(w, 's', { every: 10_000 })
    const spec = await absence(w, 9000, 11_000)
    expect(await claimNews(w, 11_000, spec)).toEqual(['s!10000'])
  })

  test('skip: a late process that was at work runs the latest', async () => {
    const w = harness()
    await register(w, 's', { every: 10_000 })
    expect(await claimNews(w, 35_000)).toEqual(['s-10000 missed', 's!30000'])
  })

  test('skip: a series that is to begin at once waits for somebody to begin it', async () => {
    const w = harness()
    await register(w, 's', { every: 100_000, immediately: true })
    const spec = await absence(w, 0, 50_000)
    expect(await claimNews(w, 50_000, spec)).toEqual(['s!0'])
    expect(await next(w, 's')).toBe(100_000)
  })

  test('catchUp: each runs, one after the other where they may not overlap', async () => {
    const w = harness()
    await register(w, 's', { every: 10_000, onMissed: 'catchUp' })
    const spec = await absence(w, 5000, 34_000)
    expect(await claimNews(w, 34_000, spec)).toEqual(['s!10000'])
    expect(await claimNews(w, 35_000, spec)).toEqual([])
    expect(w.ms((await w.claim(spec)).nextFireUs)).toBeNull()
    await w.settle('s', { kind: 'complete', result: null }, spec.worker)
    expect(await claimNews(w, 36_000, spec)).toEqual(['s!20000'])
    await w.settle('s', { kind: 'complete', result: null }, spec.worker)
    expect(await claimNews(w, 36_500, spec)).toEqual(['s!30000'])
    expect(await claimNews(w, 40_000, spec)).toEqual(['s-40000 overlap'])
    await w.settle('s', { kind: 'complete', result: null }, spec.worker)
    expect(await claimNews(w, 50_000, spec)).toEqual(['s!50000'])
  })

  test('catchUp: all at once where they may overlap, no more than the runs that are left', async () => {
    const w = harness()
    await register(w, 's', { every: 10_000, onMissed: 'catchUp', overlap: 'allow', maxRuns: 2 })
    const spec = await absence(w, 5000, 34_000)
    expect(await claimNews(w, 34_000, spec)).toEqual(['s!10000', 's!20000', 's. 2'])
  })

  test('catchUp: the latest thousand', async () => {
    const w = harness()
    await register(w, 's', { every: 1000, onMissed: 'catchUp', overlap: 'allow' })
    const spec = await absence(w, 0, 2_000_000)
    const news = await claimNews(w, 2_000_000, spec)
    expect(news).toHaveLength(1001)
    expect([news[0], news[1], news.at(-1)]).toEqual(['s-1000 missed', 's!1001000', 's!2000000'])
    expect(await next(w, 's')).toBe(2_001_000)
  })

  test('catchUp: a cron is caught up with too', async () => {
    const w = harness()
    await register(w, 's', { cron: '* * * * *', onMissed: 'catchUp', overlap: 'allow' })
    const spec = await absence(w, 0, 190_000)
    expect(await claimNews(w, 190_000, spec)).toEqual(['s!60000', 's!120000', 's!180000'])
    expect(await next(w, 's')).toBe(240_000)
  })
}

function pausing(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('no occurrence becomes a job; after it, those that were due are skipped', async () => {
    const w = harness()
    await register(w, 's')
    expect(await runs(w, 1000)).toEqual(['s@1000'])
    expect(await w.store.pauseSchedule('s', true)).toMatchObject({ paused: true, nextDueMs: null, runs: 1 })
    expect(await claimNews(w, 4500)).toEqual([])
    expect((await w.claim()).nextFireUs).toBeNull()
    expect(await w.store.pauseSchedule('s', false)).toEqual(await stored(w, 's'))
    expect([(await stored(w, 's')).paused, await next(w, 's')]).toEqual([false, 5000])
    expect(await runs(w, 4600, 5000, 6000)).toEqual(['s@5000', 's@6000'])
  })

  test('a pause that no due time falls into changes nothing, and a second one neither', async () => {
    const w = harness()
    await register(w, 's')
    for (const paused of [false, true, true, false, false]) await w.store.pauseSchedule('s', paused)
    expect(await next(w, 's')).toBe(1000)
    expect(await runs(w, 1000)).toEqual(['s@1000'])
  })

  test('an occurrence that is due at its end is not skipped', async () => {
    const w = harness()
    await register(w, 's')
    await w.store.pauseSchedule('s', true)
    w.at(3000)
    await w.store.pauseSchedule('s', false)
    expect(await claimNews(w, 3000)).toEqual(['s!3000'])
  })

  test('a cron goes on with the calendar', async () => {
    const w = harness()
    await register(w, 's', { cron: '* * * * *' })
    await w.store.pauseSchedule('s', true)
    expect(await claimNews(w, 190_000)).toEqual([])
    await w.store.pauseSchedule('s', false)
    expect(await claimNews(w, 239_000)).toEqual([])
    expect(await claimNews(w, 240_000)).toEqual(['s!240000'])
  })

  test('catchUp: what was due meanwhile is caught up with', async () => {
    const w = harness()
    await register(w, 's', { onMissed: 'catchUp', overlap: 'allow' })
    await w.store.pauseSchedule('s', true)
    expect(await claimNews(w, 3500)).toEqual([])
    await w.store.pauseSchedule('s', false)
    expect(await claimNews(w, 3500)).toEqual(['s!1000', 's!2000', 's!3000'])
    expect(await next(w, 's')).toBe(4000)
  })

  test('it survives a registration, of the same content and of other content', async () => {
    const w = harness()
    await register(w, 's')
    await w.store.pauseSchedule('s', true)
    expect(await register(w, 's')).toMatchObject({ kind: 'unchanged', schedule: { paused: true } })
    expect(await register(w, 's', { input: '1' })).toMatchObject({ kind: 'updated', schedule: { paused: true } })
    expect(await register(w, 's', { input: '1', every: 700 })).toMatchObject({ schedule: { paused: true } })
    expect(await claimNews(w, 2000)).toEqual([])
    await w.store.pauseSchedule('s', false)
    expect(await claimNews(w, 2100)).toEqual(['s!2100'])
  })

  test('a job that waits and comes too late does not end it', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, maxWait: '2s' } })
    await register(w, 's', { limits: ['r'] })
    w.at(1000)
    await w.claim({ slots: 0 })
    await w.store.pauseSchedule('s', true)
    await w.store.penalize('r', '', w.us(7500))
    w.at(1100)
    expect((await w.claim()).rejected).toHaveLength(1)
    expect(await stored(w, 's')).toMatchObject({ paused: true, nextDueMs: null, runs: 0 })
  })

  test('its end may come meanwhile; an ended series is not paused, and neither is one that is not there', async () => {
    const w = harness()
    await register(w, 's', { until: 2500 })
    await w.store.pauseSchedule('s', true)
    w.at(3000)
    const ended = { paused: false, nextDueMs: null }
    expect(await w.store.pauseSchedule('s', false)).toMatchObject(ended)
    expect(await w.store.pauseSchedule('s', true)).toMatchObject(ended)
    expect(await w.store.pauseSchedule('other', true)).toBeNull()
    expect(await claimNews(w, 4000)).toEqual([])
  })
}

function limited(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('it runs late, the due times do not move', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1500ms', burst: 1 } })
    await register(w, 's', { limits: ['r'], every: 1000 })
    expect(await runs(w, 1000, 2000, 2499.999, 2500, 3000, 4000)).toEqual(['s@1000', 's@2500', 's@4000'])
    expect(await next(w, 's')).toBe(5000)
  })

  test('past its maxWait it is skipped before it is stored; the series goes on when its limit lets it', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '3500ms', burst: 1, maxWait: '1s' } })
    await register(w, 's', { limits: ['r'], maxRuns: 2 })
    expect(await runs(w, 1000)).toEqual(['s@1000'])
    expect(await claimNews(w, 2000)).toEqual(['s-2000 late'])
    expect(await next(w, 's')).toBe(5000)
    expect(await w.store.list({})).toHaveLength(1)
    expect(await runs(w, 5000, 6000)).toEqual(['s@5000'])
    expect(await stored(w, 's')).toMatchObject({ runs: 2, nextDueMs: null })
  })

  test('heeds the maxWait and the pause of a bucket that was never used, and uses one that begins empty', async () => {
    const w = harness()
    await w.define({
      r: { rate: 1, per: '1h', burst: 1 },
      soon: { rate: 1, per: '1s', maxWait: '500ms' },
      dropped: { rate: 1, per: '1s', onLimit: 'drop' },
      paused: { rate: 10, per: '10s', startEmpty: true, onLimit: 'drop' },
      empty: { rate: 10, per: '10s', startEmpty: true, maxWait: '500ms' },
    })
    await w.add('before', { limits: ['r'] })
    expect(await runs(w, 0)).toEqual(['before@0'])
    await register(w, 's', { limits: ['r', 'soon'] })
    await register(w, 'd', { limits: ['dropped'] })
    await register(w, 'e', { limits: ['empty*2'] })
    await register(w, 'p', { limits: ['paused'] })
    for (const limit of ['dropped', 'paused']) await w.override(limit, { concurrency: 0 })
    expect((await claimNews(w, 1000)).toSorted()).toEqual(['d-1000 late', 'e!1000', 'p-1000 late', 's-1000 late'])
    expect(await runs(w, 2000)).toEqual(['e@2000'])
  })

  test('it looks at its limit again when an override ends, and else within a minute', async () => {
    const w = harness()
    await w.define({ r: { rate: 100, per: '1s', burst: 1, maxWait: '500ms' } })
    await register(w, 's', { limits: ['r'] })
    await w.override('r', { rate: 1, per: '1h' }, 3500)
    expect(await runs(w, 1000)).toEqual(['s@1000'])
    expect(await claimNews(w, 2000)).toEqual(['s-2000 late'])
    expect(await next(w, 's')).toBe(4000)
    expect(await runs(w, 4000)).toEqual(['s@4000'])
    await w.override('r', { rate: 1, per: '1h' })
    expect(await claimNews(w, 5000)).toEqual(['s-5000 late'])
    await w.store.override({
      limit: 'r',
      key: null,
      kind: 'override',
      change: null,
      untilUs: null,
      by: null,
      reason: null,
    })
    expect(await next(w, 's')).toBe(65_000)
    expect(await runs(w, 65_000, 66_000)).toEqual(['s@65000', 's@66000'])
  })

  test('is not late while a guarantee lets it start in time', async () => {
    const w = harness()
    const c = limit('c', { rate: 10, per: '10s' })
    const of = { limit: c, atLeast: { rate: 5, per: '10s' }, keys: 1 } as const
    const limits = [c, limit('t', { every: '100ms', maxWait: '300ms', of })]
    await w.store.define(limits.map((each) => ({ name: each.name, policy: useOf(each).policy, version: 0 })))
    await w.add('a', { limits: ['c'] }, 20)
    expect(await w.start()).toHaveLength(5)
    await register(w, 's', { limits: ['t', 'c'], every: 2500 })
    const started = await runs(w, 1000, 2000, 2500, 3000, 4000, 5000, 6000, 7000, 7500)
    // Others may have the next unit at 8 s.
    expect(started.filter((each) => each.startsWith('s'))).toEqual(['s@2500', 's@5000', 's@7500'])
  })

  test('one that could start only at the end of the series or later is skipped, and the series is over', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '3s', burst: 1 } })
    await w.add('before', { limits: ['r'] })
    expect(await runs(w, 0)).toEqual(['before@0'])
    await register(w, 's', { limits: ['r'], until: 3000 })
    await register(w, 't', { limits: ['r'], until: 3001 })
    expect(await claimNews(w, 1000)).toEqual(['s-1000 late', 's. 0', 't!1000'])
    expect(await runs(w, 3000)).toEqual(['t@3000'])
  })

  test('where the limit drops, it is skipped, and no discarded job is reported', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1500ms', burst: 1, onLimit: 'drop' } })
    await register(w, 's', { limits: ['r'] })
    expect(await runs(w, 1000)).toEqual(['s@1000'])
    w.at(2000)
    const claim = await w.claim()
    expect([claim.rejected, short(w, claim.schedules)]).toEqual([[], ['s-2000 late']])
    expect(await runs(w, 3000)).toEqual(['s@3000'])
  })

  test('one that waits and learns that it comes too late is no run, and is cancelled', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, maxWait: '2s' } })
    await register(w, 's', { limits: ['r'], maxRuns: 1 })
    w.at(1000)
    await w.claim({ slots: 0 })
    expect((await stored(w, 's')).runs).toBe(1)
    await w.store.penalize('r', '', w.us(7500))
    w.at(1100)
    const { rejected, nextWakeUs } = await w.claim()
    const occurrence = { schedule: 's', dueMs: w.startUs / 1000 + 1000 }
    expect(rejected).toMatchObject([{ task: 's', attempt: 0, occurrence }])
    expect(await w.store.get(rejected[0]!.id)).toMatchObject({ state: 'cancelled' })
    expect([(await stored(w, 's')).runs, w.ms(nextWakeUs)]).toEqual([0, 8000])
    expect(await runs(w, 8000, 9000)).toEqual(['s@8000'])
    expect(await stored(w, 's')).toMatchObject({ runs: 1, nextDueMs: null })
  })

  test('one that waits for a permit until the series ends never starts', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 1 } })
    await w.add('long', { limits: ['c'] })
    expect(await w.start()).toEqual(['long'])
    await register(w, 's', { limits: ['c'], until: 1500 })
    expect(await claimNews(w, 1000)).toEqual(['s!1000', 's. 1'])
    w.at(1500)
    await w.complete('long')
    expect((await w.claim()).rejected).toMatchObject([{ task: 's', occurrence: { schedule: 's' } }])
    expect(await stored(w, 's')).toMatchObject({ runs: 0, nextDueMs: null })
  })

  test('one that a limit puts off to the end of the series does not start there', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, onLimit: 'reschedule' } })
    await register(w, 's', { limits: ['r'], until: 3000 })
    w.at(1000)
    await w.claim({ slots: 0 })
    await w.store.penalize('r', '', w.us(3000))
    expect(await runs(w, 1100, 3000, 4000)).toEqual([])
    expect((await stored(w, 's')).runs).toBe(0)
  })

  test('a run that failed is retried after the end of the series, and one that is too late then is discarded', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '1s', maxWait: '1s' } })
    await register(w, 's', { limits: ['r'], until: 1500 })
    w.at(1000)
    expect(await w.start()).toEqual(['s'])
    await w.retry('s', 1000)
    w.at(2000)
    expect(await w.start()).toEqual(['s'])
    await w.store.penalize('r', '', w.us(60_000))
    await w.retry('s')
    const [rejected] = (await w.claim()).rejected
    expect(rejected).not.toHaveProperty('occurrence')
    expect(await w.store.get(rejected!.id)).toMatchObject({ state: 'discarded' })
  })
}

function shared(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('an occurrence that two claim at the same instant is fired once', async () => {
    const w = harness()
    const other = await w.reopen(backend)
    for (let i = 0; i < 20; i++) await register(w, `s${i}`, { overlap: 'allow' })
    for (let ms = 1000; ms <= 5000; ms += 1000) {
      w.at(ms)
      const claims = await Promise.all([w.claim(), other.claim(), w.claim(), other.claim()])
      expect(claims.flatMap((claim) => claim.schedules)).toHaveLength(20)
      expect(claims.flatMap((claim) => claim.jobs)).toHaveLength(20)
    }
    await other.store.close()
  })

  test('schedules, their counts and their due times survive', async () => {
    const w = harness()
    await register(w, 's')
    expect(await runs(w, 1000)).toEqual(['s@1000'])
    const other = await w.reopen(backend)
    expect((await register(other, 's')).kind).toBe('unchanged')
    expect(await stored(other, 's')).toMatchObject({ runs: 1, lastDueMs: w.startUs / 1000 + 1000 })
    expect(await runs(other, 2000)).toEqual(['s@2000'])
    await other.store.close()
  })

  test('after a reboot with a clock that went back, even distances wait for no longer than one of them', async () => {
    const w = harness()
    w.at(100_000)
    await register(w, 's')
    const clock = new VirtualClock()
    const rebooted = await backend.reopen?.(clock)
    if (!rebooted) throw new TypeError(`${backend.name} cannot be opened twice`)
    const worker = await rebooted.join(['q'], LONG_US)
    const claim = await rebooted.claim(() => ({ worker, leaseUs: LONG_US, queues: [] }))
    expect((claim.nextFireUs ?? 0) - rebooted.nowUs()).toBeLessThanOrEqual(1_000_000)
    await rebooted.close()
  })
}
