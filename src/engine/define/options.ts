import { type Clock, systemClock } from '../../base/clock.ts'
import { durationUs, type Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkMethods, checkOptions, show } from '../../base/options.ts'
import { consoleLogger, type Logger, unfailingLogger } from '../../base/logger.ts'
import { type Random, systemRandom } from '../../base/random.ts'
import { LOG_LEVELS, type LogLevel } from '../../jobs/job-log.ts'
import type { LimitBackend } from '../../limiter/contract/limiter.ts'
import type { Durability, Retention, Store } from '../../store/contract/store.ts'
import { type RetentionOptions, retentionOf } from '../../store/contract/retention.ts'
import type { Limit } from '../../policy/limits/define.ts'
import type { TermsOfQueues } from './job-terms.ts'
import { type QueueList, type QueueSettings, queuesOf } from './queue-list.ts'
import { type BudgetOptions, type BudgetSettings, budgetsOf } from './budgets.ts'
import { type AnyTask, definitionOf } from './task.ts'
import { type AnyWorkflow, workflowOf } from './workflow.ts'
import { Trouble } from '../../base/trouble.ts'

/** The options of an engine. */
export interface SluiceOptions {
  /**
   * `sqlite:./file.db`, or `sqlite::memory:` for a store that ends with the process. Or a store itself, which only this
   * engine opens and closes. Then `durability`, `retention` and `ageing` are set at the store and refused here, and the
   * store must have this engine's clock.
   */
  store: string | Store
  tasks: readonly AnyTask[]
  /** The workflows, machines and graphs of `sluice/flows` that it starts and runs; default: none. */
  workflows?: readonly AnyWorkflow[]
  /**
   * Limits to define at once that no task or queue lists, such as those that code names as texts. A limit that a call
   * lists is defined by its first use in the process.
   */
  limits?: readonly Limit[]
  /**
   * The backends that keep the budgets of limits with `backend`, by name: `redis://host`, `rediss://host`,
   * `redis+cluster://host`, `redis+sentinel://host/name`, `nats://host`, `memory:` or a backend of `sluice/limiter`, alone or with options.
   */
  budgets?: Readonly<Record<string, string | LimitBackend | BudgetOptions>>
  /**
   * The queues that this process serves once started: exactly these. Default: `default` and the queues of its tasks.
   * Names alone, `['mail']`, have all defaults. A number in place of options, `{ mail: 5 }`, is the concurrency.
   */
  queues?: QueueList
  /** `power` (default): acknowledged writes survive a power cut. `process`: they survive a killed process. */
  durability?: Durability
  /**
   * The lease of a job: other workers get its jobs this long after a worker fell silent. Default 30 s; at least 100 ms.
   */
  lease?: Duration
  /**
   * The interval at which leases are extended, at least 1 ms; default: a third of the lease. One that is not below the
   * lease is warned of: jobs that run longer than the lease are lost.
   */
  heartbeat?: Duration
  /**
   * The lines of `ctx.logger` that are kept with the job, from a level on: `debug`, `info`, `warn` or `error`. The last
   * 100 of a job, 64 KiB at most, until the job is deleted. Default `true`, which is `info`; `false`: none.
   */
  keepLogs?: boolean | LogLevel
  /** How long finished jobs are kept; default 24 h for completed and cancelled ones, 7 d for discarded ones. */
  retention?: RetentionOptions
  /**
   * A waiting job gains one step of priority per this time, at least 1 ms, so that more urgent jobs cannot starve it.
   * Its visible priority, which headroom uses, stays. The setting is stored for the whole store, by the engine that
   * opened it last. `null` ends it; default: unchanged (at first: none). Jobs of different intervals take no turns: the
   * older starts first.
   */
  ageing?: Duration | null
  /**
   * How far ahead starts are granted, each for its own instant, and held by this process until then; 0 to 1 s. So a
   * strict rate or spacing loses nothing to the time that a claim takes. After a long claim: as far as two such claims
   * take, at most four times as far and at most 1 s. 0: none is. Default: 20 ms on SQLite, 50 ms on PostgreSQL, 0 on a
   * manual clock.
   */
  ahead?: Duration
  /** The longest time for which a push-back (`RateLimited`) may close a bucket; at least 1 ms, default 1 h. */
  maxPenalty?: Duration
  /** False: the engine emits no events; default true. */
  events?: boolean
  /**
   * The interval at which events about a bucket with waiting jobs repeat, per bucket; default 1 minute, at least 1 s.
   */
  eventWindow?: Duration
  /** The clock of the engine: a manual clock in tests; default: the system's. */
  clock?: Clock
  /** Any pino-like object; default: warnings and errors on stderr. */
  logger?: Logger
  /** The source of jitter. A seeded one makes it repeatable. */
  random?: Random
}

/** The options with all defaults. */
export interface EngineSettings {
  readonly clock: Clock
  /** Passes on to the given logger, and never throws. */
  readonly logger: Logger
  /** The given logger, for handlers. */
  readonly handlerLogger: Logger
  /** Reports trouble with the store. */
  readonly trouble: Trouble
  readonly random: Random
  readonly durability: Durability
  readonly leaseUs: number
  readonly heartbeatMs: number
  readonly maxPenaltyUs: number
  /** Absent: as the store and the clock suggest. */
  readonly aheadUs?: number
  readonly ageingUs?: number | null
  /** The least urgent level of the lines that are kept; null: none is. */
  readonly keepLogs: LogLevel | null
  readonly retention: Retention
  readonly events: boolean
  readonly eventWindowUs: number
  readonly queues: readonly QueueSettings[]
  /** The terms of its queues for jobs whose task and call have none. */
  readonly queueTerms: TermsOfQueues
  readonly budgets: ReadonlyMap<string, BudgetSettings>
}

const KNOWN = [
  'store',
  'tasks',
  'workflows',
  'limits',
  'budgets',
  'queues',
  'durability',
  'lease',
  'heartbeat',
  'keepLogs',
  'retention',
  'ageing',
  'ahead',
  'maxPenalty',
  'events',
  'eventWindow',
  'clock',
  'logger',
  'random',
] as const
const OF_STORE = ['durability', 'retention', 'ageing'] as const
const SHORTEST_LEASE_MS = 100
const LONGEST_AHEAD_US = 1_000_000
const SHORTEST_EVENT_WINDOW_MS = 1000

/** Checks the options of an engine. @throws {SluiceError} `option.invalid`, `queue.invalid`, `duration.invalid` */
export function settingsOf(options: SluiceOptions): EngineSettings {
  checkOptions(options, KNOWN, 'new Sluice', {
    aliases: { queue: 'queues', db: 'store', url: 'store', database: 'store' },
  })
  if (!Array.isArray(options.tasks))
    throw new SluiceError(
      'option.invalid',
      `tasks of new Sluice is invalid: ${show(options.tasks)}. Expected the list of tasks that it enqueues and runs; it may be empty.`,
    )
  if (options.workflows !== undefined && !Array.isArray(options.workflows))
    throw new SluiceError(
      'option.invalid',
      `workflows of new Sluice is invalid: ${show(options.workflows)}. Expected a list of workflows, machines and graphs.`,
    )
  if (typeof options.store === 'object' && options.store !== null) checkStore(options)
  const { durability = 'power' } = options
  if (durability !== 'power' && durability !== 'process')
    throw new SluiceError(
      'option.invalid',
      `durability is invalid: ${show(durability)}. Expected 'power' or 'process'.`,
    )
  const { lease = '30s', maxPenalty = '1h' } = options
  const leaseUs = atLeastUs(lease, 'lease', SHORTEST_LEASE_MS)
  const { clock = systemClock, logger = consoleLogger, random = systemRandom } = options
  checkMethods(clock, ['now', 'monotonicUs', 'setTimer'], 'clock of new Sluice')
  checkMethods(logger, ['debug', 'info', 'warn', 'error'], 'logger of new Sluice')
  checkMethods(random, ['next'], 'random of new Sluice')
  const safeLogger = unfailingLogger(logger)
  const queues = queuesOf(options.queues, queuesOfCode(options))
  return {
    clock,
    logger: safeLogger,
    handlerLogger: logger,
    trouble: new Trouble(clock, safeLogger),
    random,
    durability,
    leaseUs,
    heartbeatMs: heartbeatMs(options.heartbeat, leaseUs / 1000, safeLogger),
    maxPenaltyUs: atLeastUs(maxPenalty, 'maxPenalty', 1),
    ...(options.ahead !== undefined && { aheadUs: aheadUs(options.ahead) }),
    ...(options.ageing !== undefined && { ageingUs: ageingUs(options.ageing) }),
    ...eventSettings(options),
    keepLogs: keptLevel(options.keepLogs),
    retention: retentionOf(options.retention, 'retention of new Sluice'),
    queues,
    queueTerms: new Map(queues.map(({ queue, terms }) => [queue, terms])),
    budgets: budgetsOf(options.budgets),
  }
}

function queuesOfCode({ tasks, workflows = [] }: SluiceOptions): string[] {
  const own = workflows.flatMap((each) => {
    const { task, steps = [] } = workflowOf(each)
    return [task, ...steps]
  })
  return [...tasks.map((each) => definitionOf(each)), ...own].map(({ queue }) => queue)
}

/** The options of a ready-made store were set when it was made. */
function checkStore(options: SluiceOptions): void {
  checkMethods(options.store, ['open', 'close', 'enqueue', 'claim', 'settle'], 'store of new Sluice')
  for (const name of OF_STORE)
    if (options[name] !== undefined)
      throw new SluiceError(
        'option.invalid',
        `new Sluice has ${name} beside a ready-made store, which would ignore it. Set ${name} where the store is made${name === 'ageing' ? ', or pass the URL of the store' : ''}.`,
      )
}

function keptLevel(keepLogs: unknown = true): LogLevel | null {
  if (typeof keepLogs === 'boolean') return keepLogs ? 'info' : null
  const level = LOG_LEVELS.find((each) => each === keepLogs)
  if (level !== undefined) return level
  throw new SluiceError(
    'option.invalid',
    `keepLogs is invalid: ${show(keepLogs)}. Expected true, false, ${LOG_LEVELS.join(', ')}.`,
  )
}

function ageingUs(ageing: Duration | null): number | null {
  if (ageing === null) return null
  return atLeastUs(ageing, 'ageing', 1, ', or null for none')
}

function heartbeatMs(heartbeat: Duration | undefined, leaseMs: number, logger: Logger): number {
  if (heartbeat === undefined) return leaseMs / 3
  const ms = atLeastUs(heartbeat, 'heartbeat', 1) / 1000
  if (ms >= leaseMs)
    logger.warn(
      { heartbeatMs: ms, leaseMs },
      'heartbeat is not below lease: jobs that run longer than the lease are lost. Set heartbeat to a third of lease',
    )
  return ms
}

function atLeastUs(value: Duration, what: string, leastMs: number, or = ''): number {
  const us = durationUs(value, what)
  if (us >= leastMs * 1000) return us
  throw new SluiceError('option.invalid', `${what} is invalid: ${us / 1000} ms. Expected at least ${leastMs} ms${or}.`)
}

function aheadUs(ahead: Duration): number {
  const us = durationUs(ahead, 'ahead')
  if (us <= LONGEST_AHEAD_US) return us
  throw new SluiceError('option.invalid', `ahead is invalid: ${us / 1000} ms. Expected 0 to 1 s; 0 turns it off.`)
}

function eventSettings({ events = true, eventWindow = '1m' }: SluiceOptions): {
  events: boolean
  eventWindowUs: number
} {
  if (typeof events !== 'boolean')
    throw new SluiceError('option.invalid', `events is invalid: ${show(events)}. Expected true or false.`)
  return { events, eventWindowUs: atLeastUs(eventWindow, 'eventWindow', SHORTEST_EVENT_WINDOW_MS) }
}
