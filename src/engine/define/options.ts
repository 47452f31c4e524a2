import { type Clock, systemClock } from '../../base/clock.ts'
import { durationUs, type Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkMethods, checkOptions, show } from '../../base/options.ts'
import { consoleLogger, type Logger, unfailingLogger } from '../../base/logger.ts'
import { type Random, systemRandom } from '../../base/random.ts'
import type { Durability, Retention, Store } from '../../store/contract/store.ts'
import type { Limit } from '../../policy/limits/define.ts'
import { type QueueList, type QueueSettings, queuesOf } from './queue-list.ts'
import type { AnyTask } from './task.ts'
import { Trouble } from '../../base/trouble.ts'

/** How an engine is made. */
export interface SluiceOptions {
  /**
   * `sqlite:./file.db`, or `sqlite::memory:` for a store that ends with the process. Or a store itself, which this engine alone
   * opens and closes; then `durability`, `retention` and `ageing` are that store's own and are refused here, and its clock must be this engine's.
   */
  store: string | Store
  tasks: readonly AnyTask[]
  /** Limits that calls name and no task lists. */
  limits?: readonly Limit[]
  /**
   * The queues that this process serves once started: exactly these. Without it: `default` and the queues of its tasks. Names alone,
   * `['mail']`, have all defaults; a number in place of options, `{ mail: 5 }`, is the concurrency.
   */
  queues?: QueueList
  /** `power` (default): what was acknowledged survives a power cut; `process`: it survives a killed process. */
  durability?: Durability
  /** A job's lease: how long after a worker fell silent its jobs are given to others; 30 s by default, at least 100 ms. */
  lease?: Duration
  /** How often leases are extended; a third of the lease by default. */
  heartbeat?: Duration
  /** How long finished jobs are kept: completed and cancelled 24 h, discarded 7 d by default. */
  retention?: { completed?: Duration; cancelled?: Duration; discarded?: Duration }
  /**
   * A waiting job gains one step of priority per so much time, at least 1 ms, so that none waits for ever behind more urgent ones; the
   * priority that it shows, and that headroom goes by, stays. It holds for the whole store, as the engine that opened it last says;
   * `null` ends it; by default it is left as it is (at first: none). Jobs of different intervals take no turns: the older goes first.
   */
  ageing?: Duration | null
  /** The longest that a push-back (`RateLimited`) may close a bucket; 1 h by default. */
  maxPenalty?: Duration
  /** False: no event is told to anybody; true by default. */
  events?: boolean
  /** How often a bucket that jobs go on waiting for is told of again, per bucket; 1 minute by default, at least 1 s. */
  eventWindow?: Duration
  /** A manual clock in tests. */
  clock?: Clock
  /** Any pino-like object; warnings and errors on stderr by default. */
  logger?: Logger
  /** Where jitter comes from; a seeded one makes it repeatable. */
  random?: Random
}

/** The options with all defaults filled in. */
export interface EngineSettings {
  readonly clock: Clock
  /** Passes on to the one that was given, and never throws. */
  readonly logger: Logger
  /** As it was given: what handlers are handed. */
  readonly handlerLogger: Logger
  /** Where trouble with the store is told of. */
  readonly trouble: Trouble
  readonly random: Random
  readonly durability: Durability
  readonly leaseUs: number
  readonly heartbeatMs: number
  readonly maxPenaltyUs: number
  readonly ageingUs?: number | null
  readonly retention: Retention
  readonly events: boolean
  readonly eventWindowUs: number
  readonly queues: readonly QueueSettings[]
}

const KNOWN = [
  'store',
  'tasks',
  'limits',
  'queues',
  'durability',
  'lease',
  'heartbeat',
  'retention',
  'ageing',
  'maxPenalty',
  'events',
  'eventWindow',
  'clock',
  'logger',
  'random',
] as const
/** How long jobs of each final state are kept. */
const RETENTION = ['completed', 'cancelled', 'discarded'] as const
const OF_STORE = ['durability', 'retention', 'ageing'] as const
const SHORTEST_LEASE_US = 100_000
const SHORTEST_AGEING_US = 1000
const SHORTEST_EVENT_WINDOW_US = 1_000_000

/** Checks the options of an engine. @throws option.invalid, queue.invalid, duration.invalid */
export function settingsOf(options: SluiceOptions): EngineSettings {
  checkOptions(options, KNOWN, 'new Sluice', {
    meant: { queue: 'queues', db: 'store', url: 'store', database: 'store' },
  })
  if (!Array.isArray(options.tasks))
    throw new SluiceError(
      'option.invalid',
      'new Sluice needs tasks: the list of tasks that it enqueues and runs (an empty one is allowed)',
    )
  if (typeof options.store === 'object') checkStore(options)
  const { durability = 'power' } = options
  if (durability !== 'power' && durability !== 'process')
    throw new SluiceError('option.invalid', `durability is ${show(durability)}; it is 'power' or 'process'`)
  const { lease = '30s', maxPenalty = '1h' } = options
  const leaseUs = durationUs(lease, 'lease')
  if (leaseUs < SHORTEST_LEASE_US)
    throw new SluiceError(
      'option.invalid',
      `lease is ${leaseUs / 1000} ms; give at least ${SHORTEST_LEASE_US / 1000} ms`,
    )
  if (options.retention !== undefined) checkOptions(options.retention, RETENTION, 'retention of new Sluice')
  const { completed = '24h', cancelled = '24h', discarded = '7d' } = options.retention ?? {}
  const { clock = systemClock, logger = consoleLogger, random = systemRandom } = options
  checkMethods(clock, ['now', 'monotonicUs', 'setTimer'], 'clock of new Sluice')
  checkMethods(logger, ['debug', 'info', 'warn', 'error'], 'logger of new Sluice')
  checkMethods(random, ['next'], 'random of new Sluice')
  const safeLogger = unfailingLogger(logger)
  return {
    clock,
    logger: safeLogger,
    handlerLogger: logger,
    trouble: new Trouble(clock, safeLogger),
    random,
    durability,
    leaseUs,
    heartbeatMs: options.heartbeat === undefined ? leaseUs / 3000 : durationUs(options.heartbeat, 'heartbeat') / 1000,
    maxPenaltyUs: durationUs(maxPenalty, 'maxPenalty'),
    ...(options.ageing !== undefined && { ageingUs: ageingUs(options.ageing) }),
    ...eventSettings(options),
    retention: {
      completedUs: durationUs(completed, 'retention.completed'),
      cancelledUs: durationUs(cancelled, 'retention.cancelled'),
      discardedUs: durationUs(discarded, 'retention.discarded'),
    },
    queues: queuesOf(options.queues, options.tasks),
  }
}

/** What a store is opened with was said when it was made. */
function checkStore(options: SluiceOptions): void {
  checkMethods(options.store, ['open', 'close', 'enqueue', 'claim', 'settle'], 'store of new Sluice')
  for (const name of OF_STORE)
    if (options[name] !== undefined)
      throw new SluiceError(
        'option.invalid',
        `new Sluice got ${name} beside a store that was made already, which would not hold to it; say it where the store is made${name === 'ageing' ? ', or give the address of the store' : ''}`,
      )
}

function ageingUs(ageing: Duration | null): number | null {
  if (ageing === null) return null
  const us = durationUs(ageing, 'ageing')
  if (us >= SHORTEST_AGEING_US) return us
  throw new SluiceError('option.invalid', `ageing is ${us / 1000} ms; give at least 1 ms, or null for none`)
}

function eventSettings({ events = true, eventWindow = '1m' }: SluiceOptions): {
  events: boolean
  eventWindowUs: number
} {
  if (typeof events !== 'boolean')
    throw new SluiceError('option.invalid', `events is ${show(events)}; give true or false`)
  const eventWindowUs = durationUs(eventWindow, 'eventWindow')
  if (eventWindowUs < SHORTEST_EVENT_WINDOW_US)
    throw new SluiceError('option.invalid', `eventWindow is ${eventWindowUs / 1000} ms; give at least 1 s`)
  return { events, eventWindowUs }
}
