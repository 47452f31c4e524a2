import { type Clock, systemClock } from '../base/clock.ts'
import { createIds } from '../base/ids.ts'
import { type Logger, silentLogger } from '../base/logger.ts'
import type { LimitHooks } from '../engine/api/limits.ts'
import type { FlowHooks } from '../engine/api/flows.ts'
import { LimitRegistry } from '../engine/define/limit-registry.ts'
import { ServedQueues } from '../engine/define/served-queues.ts'
import { Events } from '../engine/events/events.ts'
import { WaitHistogram } from '../engine/events/wait-histogram.ts'
import { Wakeup } from '../engine/events/wakeup.ts'
import { Results } from '../engine/run/results.ts'
import type { Store } from '../store/contract/store.ts'

/** The parts that an engine's views need. */
export interface ReadingParts extends Pick<
  FlowHooks,
  'calls' | 'checkOpen' | 'instrumentation' | 'tasks' | 'workflows'
> {
  readonly clock: Clock
  readonly logger: Logger
  readonly store: () => Promise<Store>
  readonly cancelRun: () => Promise<void>
  readonly changing: LimitHooks['changing']
  readonly budgets: null
  readonly limits: LimitRegistry
  readonly events: Events
  readonly waits: WaitHistogram
  readonly results: Results
  readonly wakeup: Wakeup
  readonly servedQueues: ServedQueues
}

/** Creates the parts without an engine. A command that only reads wakes no worker and has no limits of its own. */
export function readingParts(opened: Store): ReadingParts {
  const store = async (): Promise<Store> => opened
  const [clock, logger] = [systemClock, silentLogger]
  const limits = new LimitRegistry(() => undefined)
  return {
    calls: { newId: createIds(clock), clock, limits, queueLimits: { ofJobs: () => [] }, queueTerms: new Map() },
    checkOpen: () => undefined,
    instrumentation: () => null,
    tasks: new Map(),
    workflows: new Map(),
    clock,
    logger,
    store,
    cancelRun: async () => undefined,
    changing: (_, change) => change(),
    budgets: null,
    limits,
    events: new Events(() => undefined, false),
    waits: new WaitHistogram(),
    results: new Results(store, clock),
    wakeup: new Wakeup(),
    servedQueues: new ServedQueues({ clock, logger, store }),
  }
}
