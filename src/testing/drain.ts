import { type Duration, durationUs } from '../base/duration.ts'
import { SluiceError } from '../base/errors.ts'
import { checkMethods, checkOptions, show } from '../base/options.ts'
import type { JobState } from '../jobs/job-state.ts'
import { Sluice } from '../engine/engine.ts'
import type { ManualClock } from './manual-clock.ts'

const NOT_ENDED: readonly JobState[] = ['scheduled', 'available', 'pending', 'active', 'retryable']

/**
 * Advances the clock, timer by timer, until every job in the engine's store has ended, on any engine. Start the engine
 * first. A handler that waits must wait on the clock.
 * @param options.within the longest time that the clock may advance; one day by default.
 * @returns the time that passed on the clock, in ms
 * @throws {SluiceError} `drain.timeout` when jobs remain after that time, or when no timer remains
 */
export async function drain(sluice: Sluice, clock: ManualClock, options: { within?: Duration } = {}): Promise<number> {
  if (!(sluice instanceof Sluice))
    throw new SluiceError(
      'option.invalid',
      `The first argument of drain is invalid: ${show(sluice)}. Expected a Sluice, then its clock.`,
    )
  checkMethods(clock, ['advance', 'next', 'monotonicUs'], 'the clock of drain')
  checkOptions(options, ['within'], 'drain')
  const beganUs = clock.monotonicUs()
  const endUs = beganUs + durationUs(options.within ?? '1d', 'within')
  await clock.advance(0)
  for (;;) {
    const [left] = await sluice.jobs.list({ states: NOT_ENDED, limit: 1 })
    if (!left) return (clock.monotonicUs() - beganUs) / 1000
    const nextMs = clock.next()
    if (nextMs === null || clock.monotonicUs() + nextMs * 1000 > endUs) {
      const { words } = await sluice.jobs.explain(left.id)
      throw new SluiceError(
        'drain.timeout',
        `After ${(clock.monotonicUs() - beganUs) / 1000} ms on the clock a job of task ${left.task} had not ended. ${words}`,
      )
    }
    await clock.advance(nextMs)
  }
}
