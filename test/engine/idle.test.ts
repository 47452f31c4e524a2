import { expect, test } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { input, task } from '../../src/exports/index.ts'
import { setStage } from './stage.ts'

test('an idle engine sets few timers: what it does at intervals falls together', async () => {
  const stage = setStage()
  let timers = 0
  const { clock } = stage
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
  await stage.start({ tasks: [idle], clock: counting })
  timers = 0
  await clock.advance('1h')
  expect(timers).toBeLessThanOrEqual(720)
})
