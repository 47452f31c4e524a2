import { expect, test } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { input, task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

test('an idle engine sets few timers: what it does at intervals falls together', async () => {
  const harness = createEngineHarness()
  let timers = 0
  const { clock } = harness
  const counting: Clock = {
    bootId: clock.bootId,
    now: () => clock.now(),
    monotonicUs: () => clock.monotonicUs(),
    attach: (activity) => clock.attach?.(activity) ?? (() => undefined),
    setTimer(run, delayMs) {
      timers++
      return clock.setTimer(run, delayMs)
    },
  }
  const idle = task('idle', input<undefined>(), { run: () => undefined })
  await harness.start({ tasks: [idle], clock: counting })
  timers = 0
  await clock.advance('1h')
  expect(timers).toBeLessThanOrEqual(720)
})

test('the fallback poll is made though a heartbeat falls on every one of them', async () => {
  const { clock, start } = createEngineHarness()
  const seen: string[] = []
  const late = task('late', input<undefined>(), { run: () => void seen.push('ran') })
  // A heartbeat is made every third of a lease: every 5 s, as the poll is.
  await start({ tasks: [late], lease: '15s' })
  await late.enqueue(undefined, { delay: '2h' })
  await clock.advance('1s')
  // Nothing but the poll can notice that the wall clock was put right.
  clock.step('2h')
  await clock.advance('6s')
  expect(seen).toEqual(['ran'])
})
