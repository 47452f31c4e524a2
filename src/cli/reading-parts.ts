import { type Clock, systemClock } from '../base/clock.ts'
import { type Logger, silentLogger } from '../base/logger.ts'
import type { LimitHooks } from '../engine/api/limits.ts'
import { LimitRegistry } from '../engine/define/limit-registry.ts'
import { ServedQueues } from '../engine/define/served-queues.ts'
import { Events } from '../engine/events/events.ts'
import { WaitHistogram } from '../engine/events/wait-histogram.ts'
import { Wakeup } from '../engine/events/wakeup.ts'
import { Results } from '../engine/run/results.ts'
import type { Store } from '../store/contract/store.ts'

/** The parts that an engine's views need. */
export interface ReadingParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly store: () => Promise<Store>
  readonly cancelRun: () => Promise<void>
  readonly changing: LimitHooks['changing']
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
  return {
    clock,
    logger,
    store,
    cancelRun: async () => undefined,
    changing: (_, change) => change(),
    limits: new LimitRegistry(() => undefined),
    events: new Events(() => undefined, false),
    waits: new WaitHistogram(),
    results: new Results(store, clock),
    wakeup: new Wakeup(),
    servedQueues: new ServedQueues({ clock, logger, store }),
  }
}
