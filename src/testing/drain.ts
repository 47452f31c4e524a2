import { type Duration, durationUs } from '../base/duration.ts'
import { SluiceError } from '../base/errors.ts'
import { checkMethods, checkOptions, show } from '../base/options.ts'
import type { JobState } from '../jobs/job-state.ts'
import { Sluice } from '../engine/engine.ts'
import type { ManualClock } from './manual-clock.ts'

const NOT_ENDED: readonly JobState[] = ['scheduled', 'available', 'pending', 'active', 'retryable']

/**
 * Lets the clock run, from timer to timer, until no job of the engine's store is left that has not ended, whichever engine runs it;
 * answers how long that took on the clock, in ms. Start the engine first; a handler that waits has to wait on the clock.
 * @param options.within the longest that the clock may run; one day by default.
 * @throws drain.timeout when jobs are left then, or when none of the clock's timers could end them
 */
export async function drain(sluice: Sluice, clock: ManualClock, options: { within?: Duration } = {}): Promise<number> {
  if (!(sluice instanceof Sluice))
    throw new SluiceError('option.invalid', `drain got ${show(sluice)}; give a Sluice, then its clock`)
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
