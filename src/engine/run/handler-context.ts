import type { Clock } from '../../base/clock.ts'
import type { Logger } from '../../base/logger.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { FlowMemory } from '../../jobs/flow-memory.ts'
import type { Store } from '../../store/contract/store.ts'
import type { RemembersFlow } from '../define/flow-entry.ts'
import type { Context } from '../define/task.ts'
import { snoozeFor } from '../define/snooze.ts'
import type { Events } from '../events/events.ts'
import type { Feedback } from './feedback.ts'
import { loggedRun, runLogger } from './job-logger.ts'
import type { KeptNotes } from './kept-notes.ts'
import { about } from './report.ts'

/** The parts that the contexts of handlers share. */
export interface HandlerParts {
  readonly clock: Clock
  readonly events: Events
  readonly store: Store
  readonly feedback: Feedback
  /** The logger that the engine's user passed. */
  readonly handlerLogger: Logger
  readonly notes: KeptNotes
}

/**
 * The context of one call. Its accessors are those of the class: an object with accessors of its own has a hidden class
 * of its own, which keeps the job in memory until the next full collection of garbage.
 */
export class HandlerContext implements Context<unknown>, RemembersFlow {
  readonly job: Context<unknown>['job']
  readonly attempt: number
  readonly charge: Context<unknown>['charge']
  readonly observe: Context<unknown>['observe']
  readonly progress: Context<unknown>['progress']
  readonly snooze: Context<unknown>['snooze']
  readonly #granted: GrantedJob
  readonly #shared: HandlerParts
  readonly #signal: () => AbortSignal
  #logger: Logger | null = null

  /** @param signal makes the signal at its first use: most handlers never read it */
  constructor(shared: HandlerParts, job: GrantedJob, input: unknown, signal: () => AbortSignal) {
    const { clock, events, feedback, notes } = shared
    const { flow, parentResults } = flowOf(job)
    this.#granted = job
    this.#shared = shared
    this.#signal = signal
    this.job = { id: job.id, input, occurrence: occurrenceOf(job), flow, parentResults }
    this.attempt = job.attempt
    // Handlers take them out of the context, so they need no `this`.
    this.charge = (limit, units): void => feedback.charge(job, typeof limit === 'string' ? limit : limit.name, units)
    this.observe = (response): void => feedback.observe(job, response)
    this.progress = (fraction): void => {
      const progress = Math.min(1, Math.max(0, fraction))
      notes.progress(job, progress)
      events.emit('job.progress', { ...about(job), progress })
    }
    this.snooze = (duration) => snoozeFor(duration, clock)
  }

  flowMemory(): Promise<FlowMemory | null> {
    return this.#shared.store.enterFlow(this.#granted.seq)
  }

  get signal(): AbortSignal {
    return this.#signal()
  }

  /** Created on first use, too. */
  get logger(): Logger {
    const { handlerLogger, notes } = this.#shared
    return (this.#logger ??= notes.logger(runLogger(handlerLogger, loggedRun(this.#granted)), this.#granted))
  }
}

function occurrenceOf({ occurrence }: GrantedJob): Context<unknown>['job']['occurrence'] {
  return occurrence ? { schedule: occurrence.schedule, dueAt: new Date(occurrence.dueMs) } : null
}

/** The flow of a job, for its handler. */
function flowOf({ flow }: GrantedJob): Pick<Context<unknown>['job'], 'flow' | 'parentResults'> {
  if (!flow) return NO_FLOW
  const { id, node, callback, parentResults: texts } = flow
  const parentResults = texts && texts.map((text): unknown => (text === null ? null : JSON.parse(text)))
  return { flow: { id, node, callback }, parentResults }
}

const NO_FLOW = { flow: null, parentResults: null }
