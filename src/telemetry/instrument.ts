import type { Meter, Tracer } from '@opentelemetry/api'
import { SluiceError } from '../base/errors.ts'
import { checkMethods, checkOptions, show } from '../base/options.ts'
import { asError } from '../base/thrown.ts'
import { systemClock } from '../base/clock.ts'
import type { Sluice } from '../engine/engine.ts'
import type { Instrumentation } from '../engine/events/instrumentation.ts'
import { api } from './api.ts'
import { measure } from './metrics.ts'
import { tracing } from './tracing.ts'

/** Options of `instrument`. */
export interface InstrumentOptions {
  /** Default: a meter named `sluice` of the program's meter provider. */
  meter?: Meter
  /** Default: a tracer named `sluice` of the program's tracer provider. */
  tracer?: Tracer
  /**
   * `child` (default): a run joins the trace of its enqueue. `link`: a run has its own trace, linked to the enqueue's.
   */
  runs?: 'child' | 'link'
  /**
   * Counts the store at every collection: the jobs that wait for budget, jobs by state, workers, used budgets. The time
   * grows with the number of jobs; a slow count is shown again for a while. Default true.
   */
  waiting?: boolean
}

/**
 * Traces and measures an engine through `@opentelemetry/api`, which does nothing until the program sets up an SDK.
 * Labels are bounded: names of limits, queues and tasks. Counters come from the engine's events; an engine with
 * `events: false` has none.
 *
 * @returns a function that stops the instrumentation
 * @throws {SluiceError} `option.invalid`
 */
export function instrument(sluice: Sluice, options: InstrumentOptions = {}): () => void {
  checkMethods(sluice, ['instrument', 'on'], 'the engine of instrument')
  checkOptions(options, ['meter', 'tracer', 'runs', 'waiting'], 'instrument')
  const {
    meter = api.metrics.getMeter('sluice'),
    tracer = api.trace.getTracer('sluice'),
    runs = 'child',
    waiting = true,
  } = options
  checkMethods(meter, ['createCounter', 'createHistogram'], 'meter of instrument')
  checkMethods(tracer, ['startSpan'], 'tracer of instrument')
  if (runs !== 'child' && runs !== 'link')
    throw new SluiceError('option.invalid', `runs of instrument is invalid: ${show(runs)}. Expected 'child' or 'link'.`)
  if (typeof waiting !== 'boolean')
    throw new SluiceError(
      'option.invalid',
      `waiting of instrument is invalid: ${show(waiting)}. Expected true or false.`,
    )
  const traced = tracing(tracer, runs === 'child')
  const measures = measure(sluice, meter, waiting)
  const instrumentation: Instrumentation = {
    async enqueue(call, store) {
      try {
        const jobs = await traced.enqueue(call, store)
        measures.sent(call, null)
        return jobs
      } catch (error) {
        measures.sent(call, asError(error))
        throw error
      }
    },
    step: (call, work) => traced.step?.(call, work) ?? work(),
    async run(call, work) {
      const beganUs = systemClock.monotonicUs()
      const end = await traced.run(call, work)
      measures.processed(call, end, (systemClock.monotonicUs() - beganUs) / 1e6)
      return end
    },
  }
  sluice.instrument(instrumentation)
  return () => {
    sluice.instrument(null)
    measures.stop()
  }
}
