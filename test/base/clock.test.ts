import { execFileSync, spawnSync } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'

describe('the system clock', () => {
  test('counts whole microseconds that never go back', () => {
    const readings = Array.from({ length: 1_000 }, () => systemClock.monotonicUs())
    expect(readings.every(Number.isSafeInteger)).toBe(true)
    expect(readings).toEqual(readings.toSorted((a, b) => a - b))
  })

  test('shares its steady time and its boot with other processes', () => {
    const url = new URL('../../src/base/clock.ts', import.meta.url).href
    const code = `import { systemClock as c } from ${JSON.stringify(url)}; console.log(JSON.stringify([c.monotonicUs(), c.bootId]))`
    const before = systemClock.monotonicUs()
    const output = execFileSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' })
    const [us, bootId] = JSON.parse(output) as [number, string]
    expect(us).toBeGreaterThan(before)
    expect(us).toBeLessThan(systemClock.monotonicUs())
    expect(bootId).toBe(systemClock.bootId)
  })

  test('names the boot', () => {
    expect(systemClock.bootId).toMatch(process.platform === 'linux' ? /^[0-9a-f-]{36}$/ : /./)
  })

  test('never fires early', async () => {
    const delays = [0, 0.1, 0.9, 1, 1.001, 2.5, 7.3]
    const earlyUs = delays.map(
      (delayMs) =>
        new Promise<number>((resolve) => {
          const start = systemClock.monotonicUs()
          systemClock.setTimer(() => resolve(delayMs * 1_000 - (systemClock.monotonicUs() - start)), delayMs)
        }),
    )
    for (const us of await Promise.all(earlyUs)) expect(us).toBeLessThanOrEqual(0)
  })
})

describe('a timer in virtual time', () => {
  const DAY_MS = 86_400_000

  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  test('of 30 days fires after 30 days, not at once, and wakes every hour on the way', () => {
    let fired = 0
    systemClock.setTimer(() => fired++, 30 * DAY_MS)
    vi.advanceTimersByTime(30 * DAY_MS - 1)
    expect(fired).toBe(0)
    vi.advanceTimersByTime(1)
    expect(fired).toBe(1)
    vi.advanceTimersByTime(60 * DAY_MS)
    expect(fired).toBe(1)
  })

  test('never asks for a sleep of more than an hour', () => {
    const timer = systemClock.setTimer(() => undefined, DAY_MS)
    const start = systemClock.monotonicUs()
    vi.advanceTimersToNextTimer()
    expect(systemClock.monotonicUs() - start).toBe(3_600_000_000)
    timer.cancel()
    expect(vi.getTimerCount()).toBe(0)
  })

  test('rounds a part of a millisecond up', () => {
    let fired = false
    systemClock.setTimer(() => (fired = true), 2.1)
    vi.advanceTimersByTime(2)
    expect(fired).toBe(false)
    vi.advanceTimersByTime(1)
    expect(fired).toBe(true)
  })

  test('that is cancelled never fires, in whatever piece it is', () => {
    let fired = false
    const early = systemClock.setTimer(() => (fired = true), 5)
    const late = systemClock.setTimer(() => (fired = true), DAY_MS)
    early.cancel()
    vi.advanceTimersByTime(DAY_MS / 2)
    late.cancel()
    late.cancel()
    vi.advanceTimersByTime(DAY_MS)
    expect(fired).toBe(false)
  })

  test.each([-5, Number.NaN])('with a delay of %d fires in the next turn', (delayMs) => {
    let fired = false
    systemClock.setTimer(() => (fired = true), delayMs)
    expect(fired).toBe(false)
    vi.advanceTimersByTime(1)
    expect(fired).toBe(true)
  })
})

test('a timer that is not referenced lets the process end', () => {
  const url = new URL('../../src/base/clock.ts', import.meta.url).href
  const code = `import { systemClock as c } from ${JSON.stringify(url)}; c.setTimer(() => {}, 600_000).unref()`
  const ended = spawnSync(process.execPath, ['--input-type=module', '-e', code], { timeout: 100_000 })
  expect(ended.status).toBe(0)
})
