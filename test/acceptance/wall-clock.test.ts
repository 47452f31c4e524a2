import { describe, expect, test } from 'vitest'
import { createManualClock } from '../../src/exports/testing.ts'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { every, expectSeconds, rate, Room, skewed, times } from './harness.ts'

describe('a step of the wall clock', () => {
  test('forward moves no start', async () => {
    const room = await Room.open({ policy: rate(15, 60, 1) })
    await room.enqueueMany(31, { key: 'A' })
    await room.until(10)
    room.clock.step('60s')
    await room.until(121)
    expectSeconds(room.secondsOf('A'), every(4, 0, 120))
    await room.finish()
  })

  test('two hours back refuses no job', async () => {
    const room = await Room.open({ policy: rate(15, 60) })
    await room.enqueue({ key: 'A' })
    await room.until(5)
    room.clock.step('-2h')
    await room.until(10, { look: false })
    await room.enqueue({ key: 'A' })
    await room.until(20)
    expectSeconds(room.secondsOf('A'), [0, 10])
    await room.finish()
  })

  test('an hour ahead gives nothing while the host is up', async () => {
    const room = await Room.open({ policy: rate(5, 50) })
    await room.enqueueMany(10, { key: 'A' })
    await room.until(1)
    room.clock.step('1h')
    await room.until(60)
    expectSeconds(room.secondsOf('A'), [...times(5, 0), 10, 20, 30, 40, 50])
    await room.finish()
  })
})

test('a node whose wall clock is five minutes ahead starts nothing early', async () => {
  const room = await Room.open({ policy: rate(3, 30), file: true })
  await room.engine({ clock: skewed(room.clock, 300_000) })
  for (let i = 0; i < 4; i++) for (const engine of [room.first, room.last]) await room.enqueue({ key: 'A' }, {}, engine)
  await room.until(60)
  expectSeconds(room.secondsOf('A'), [...times(3, 0), 10, 20, 30, 40, 50])
  await room.finish()
})

describe('after a reboot', () => {
  test.each([
    ['ten seconds back, nothing stays closed longer than the limit’s own period', -10_000, 5, [10, 20, 30, 40, 50]],
    ['an hour ahead, at most one burst starts', 3_600_000, 8, [0, 0, 0, 0, 0, 10, 20, 30]],
  ] as const)('the wall decides: %s', async (_, offMs, count, expected) => {
    const directory = mkdtempSync(join(tmpdir(), 'sluice-acceptance-'))
    try {
      const store = `sqlite:${join(directory, 'jobs.db')}`
      const startMs = Date.parse('2026-03-01T12:00:00Z')
      const starts: number[] = []
      const boot = async (clockStartMs: number, enqueue: number, seconds: number): Promise<void> => {
        const clock = createManualClock({ start: clockStartMs })
        const work = task('work.gated', input<object>(), {
          limits: [limit('gate', rate(5, 50))],
          run: () => void starts.push((clock.now() - clockStartMs) / 1000),
        })
        const engine = new Sluice({ store, tasks: [work], clock, logger: silentLogger })
        await engine.start()
        await work.enqueueMany(Array.from({ length: enqueue }, () => ({})))
        await clock.advance(seconds * 1000)
        const [bucket] = await engine.limits.inspect('gate')
        expect(bucket?.available ?? 5).toBeGreaterThanOrEqual(0)
        await engine.stop({ within: 0 })
      }
      await boot(startMs, 5, 0)
      expect(starts.splice(0)).toEqual([0, 0, 0, 0, 0])
      await boot(startMs + offMs, count, 100)
      expectSeconds(starts, expected)
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })

  test('an hour back, jobs that waited go on within their limit’s period, and lost runs are taken back at once', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'sluice-acceptance-'))
    try {
      const store = `sqlite:${join(directory, 'jobs.db')}`
      const startMs = Date.parse('2026-03-01T12:00:00Z')
      const starts: string[] = []
      let clock = createManualClock({ start: startMs })
      const work = task('work.gated', input<{ name: string }>(), {
        limits: [limit('gate', rate(1, 10))],
        run: ({ name }) => void starts.push(`${name}@${clock.monotonicUs() / 1e6}`),
      })
      const lost = task('work.lost', {
        run: (_, ctx) => (
          starts.push(`lost@${clock.monotonicUs() / 1e6}`),
          ctx.attempt === 1 ? clock.sleep('2h') : null
        ),
      })
      const before = new Sluice({ store, tasks: [work, lost], clock, logger: silentLogger })
      await before.start()
      await lost.enqueue()
      for (const name of ['a', 'b', 'c']) await work.enqueue({ name })
      await clock.advance('1s')
      expect(starts.splice(0).sort()).toEqual(['a@0', 'lost@0'])
      // The power goes: `before` is never stopped, its clock stands still.
      clock = createManualClock({ start: startMs - 3_600_000 })
      const after = new Sluice({ store, tasks: [work, lost], clock, logger: silentLogger })
      await after.start()
      await clock.advance('60s')
      expect(starts).toEqual(['lost@0', 'b@10', 'c@20'])
      await after.stop({ within: 0 })
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })

  test('an hour back, a retry waits for no longer than its delay', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'sluice-acceptance-'))
    try {
      const store = `sqlite:${join(directory, 'jobs.db')}`
      const startMs = Date.parse('2026-03-01T12:00:00Z')
      const starts: string[] = []
      let clock = createManualClock({ start: startMs })
      const work = task('work.failing', {
        retry: { attempts: 2, backoff: 'fixed', initial: '30s', jitter: false },
        run: (_, ctx) => {
          starts.push(`${ctx.attempt}@${clock.monotonicUs() / 1e6}`)
          if (ctx.attempt === 1) throw new Error('not yet')
        },
      })
      const before = new Sluice({ store, tasks: [work], clock, logger: silentLogger })
      await before.start()
      await work.enqueue()
      await clock.advance('10s')
      expect(starts.splice(0)).toEqual(['1@0'])
      clock = createManualClock({ start: startMs - 3_600_000 })
      const after = new Sluice({ store, tasks: [work], clock, logger: silentLogger })
      await after.start()
      await clock.advance('60s')
      expect(starts).toEqual(['2@30'])
      await after.stop({ within: 0 })
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })
})
