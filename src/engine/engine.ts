import type { Clock } from '../base/clock.ts'
import { type Duration, durationMs } from '../base/duration.ts'
import { SluiceError } from '../base/errors.ts'
import { checkMethods, checkOptions } from '../base/options.ts'
import { createIds } from '../base/ids.ts'
import { settlesWithin, Once } from '../base/promises.ts'
import type { Limit } from '../policy/limits/define.ts'
import type { Forecast } from '../policy/forecast/what-if.ts'
import { storeLoader } from '../store/open.ts'
import type { Store } from '../store/contract/store.ts'
import { type EnqueueContext, Enqueuer, prepare } from './run/enqueue.ts'
import type { Events } from './events/events.ts'
import { Figures } from './events/figures.ts'
import { type Listen, Listening } from './events/listen.ts'
import type { FlowEngine } from './define/flow-entry.ts'
import { flowEngineOf } from './run/flow-engine.ts'
import { FlowStarter } from './run/start-flows.ts'
import { bindWorkflow, definitionsOf } from './define/workflow.ts'
import { checkFailModes } from './define/budgets.ts'
import { registryOf } from './define/registry.ts'
import { FlowsApi } from './api/flows.ts'
import { forecastLimit, type LiveForecastOptions } from './api/forecast.ts'
import type { Instrumentation } from './events/instrumentation.ts'
import { JobsApi } from './api/jobs.ts'
import type { Changing } from '../jobs/hold.ts'
import type { LimitRegistry } from './define/limit-registry.ts'
import { LimitsApi } from './api/limits.ts'
import { type EngineSettings, settingsOf, type SluiceOptions } from './define/options.ts'
import { Place, refuseFakedTimers } from './define/place.ts'
import { PlainCode } from './run/plain-code.ts'
import { QueueLimits } from './define/queue-limits.ts'
import { withBackends } from './run/budgeted-store.ts'
import { Reporter } from './run/report.ts'
import { Resolver } from './run/resolve.ts'
import { Results } from './run/results.ts'
import { jobOptions, type ScheduleOptions } from './define/schedule.ts'
import { QueuesApi } from './api/queues.ts'
import { SchedulesApi, type ScheduleView, scheduleViewOf } from './api/schedules.ts'
import { trimTask } from './api/trim-task.ts'
import { TasksApi } from './api/tasks.ts'
import { WorkersApi } from './api/workers.ts'
import { ServedQueues, warnUnserved } from './define/served-queues.ts'
import { bind, type EnqueueOptions, type Job, type Task, type TaskDefinition } from './define/task.ts'
import { listed, listTasks } from './define/task-list.ts'
import { Wakeup } from './events/wakeup.ts'
import { keepInternals, type OpenStore } from './internals.ts'
import { Worker } from './run/worker.ts'

/** The time after `within`: 5 s for handlers with an aborted signal, and one to write their outcomes. */
const STOP_GRACE_MS = 6000

/**
 * An engine: enqueues the calls of its tasks, and, once started, runs them within their limits.
 * @throws {SluiceError} `option.invalid`, `policy.invalid`, `limit.conflict`, `task.conflict`, `store.url.invalid` from
 * the constructor; then nothing is opened
 */
export class Sluice {
  /** The remaining budget and the wait list of every limit; overrides, pauses and penalties. */
  readonly limits: LimitsApi
  /** Stored jobs: read, cancel, retry, explain. */
  readonly jobs: JobsApi
  /** The queues of the store: look, pause, resume, bound, drain. */
  readonly queues: QueuesApi
  /** The workers of the store, with what they run. */
  readonly workers: WorkersApi
  /** The tasks of the store, with their jobs by state. */
  readonly tasks: TasksApi
  /** Schedules: list, read, remove. */
  readonly schedules: SchedulesApi
  /** Flows: start chains, groups and batches; read, explain, signal, retry and cancel any flow. */
  readonly flows: FlowsApi
  /**
   * Calls `listener` at every event of that name: of this process, or with `fleet: true` of all processes of the store,
   * at least once and in the order of each job. Returns a function that stops it.
   * @throws {SluiceError} `option.invalid` for an unknown name or option, a listener other than a function, or an event
   * that the fleet does not tell; `engine.stopped`
   */
  readonly on: Listen
  readonly #settings: EngineSettings
  readonly #tasks: ReadonlyMap<string, TaskDefinition>
  readonly #registry: LimitRegistry
  readonly #queueLimits: QueueLimits
  readonly #events: Events
  readonly #listening: Listening
  readonly #figures = new Figures(() => this.#settings.clock.now())
  /** Null until its backend is loaded. */
  #store: Store | null = null
  readonly #load: () => Promise<Store>
  #isLoading = false
  readonly #results: Results
  readonly #calls: EnqueueContext
  readonly #enqueuer: Enqueuer
  readonly #flowEngine: FlowEngine
  readonly #servedQueues: ServedQueues
  readonly #budgets: PlainCode
  readonly #unbind: (() => void)[]
  readonly #detach: (() => void) | undefined
  readonly #wakeup = new Wakeup()
  readonly #onStop: (() => void)[] = []
  /** A database often starts later than its clients: the next call tries again. */
  readonly #opening = new Once(() => this.#openStore())
  #open: (OpenStore & { readonly resolver: Resolver }) | null = null
  #closed = false
  #worker: Worker | null = null
  readonly #starting = new Once(() => this.#start())
  #stopping: Promise<void> | null = null

  readonly #place: Place
  readonly #changingJobs: Changing = (uses, change) => this.#worker?.changing(uses, change) ?? change()
  readonly #changing: Changing = (uses, change) => this.#budgets.changing(uses, () => this.#changingJobs(uses, change))

  constructor(options: SluiceOptions) {
    const settings = (this.#settings = settingsOf(options))
    const { clock, logger, queueTerms } = settings
    this.#registry = registryOf(options, settings)
    this.#tasks = listTasks(options.tasks, options.workflows ?? [], this.#registry)
    checkFailModes(settings.budgets, this.#registry)
    const queueLimits = (this.#queueLimits = new QueueLimits(settings.queues, this.#registry))
    this.#listening = this.#listeningOf(settings)
    this.#events = this.#listening.events
    this.on = this.#listening.on
    this.#load = storeLoader(options.store, settings)
    this.#place = new Place(options.store)
    if (typeof options.store === 'object') this.#store = options.store
    const calls = (this.#calls = { newId: createIds(clock), clock, limits: this.#registry, queueLimits, queueTerms })
    const store = async (): Promise<Store> => (await this.#opening.done()).store
    const cancelRun = async (job: string): Promise<void> => this.#worker?.cancel(job)
    const open = (): Promise<OpenStore> => this.#openForOthers()
    const [wakeup, limits] = [this.#wakeup, this.#registry]
    const parts = {
      clock,
      logger,
      calls,
      store,
      limits,
      budgets: (this.#budgets = new PlainCode({ ...settings, limits, wakeup, open, changing: this.#changingJobs })),
      tasks: this.#tasks,
      workflows: definitionsOf(options.workflows),
      events: this.#events,
      figures: this.#figures,
      waits: this.#figures.waits,
      results: (this.#results = new Results(store, clock)),
      wakeup,
      servedQueues: (this.#servedQueues = new ServedQueues({ clock, logger, store })),
    }
    const calling = {
      ...parts,
      about: () => this.#place.inWords(this.#worker ? 'running' : 'not started'),
      store: () => this.#open?.store ?? store(),
      checkOpen: (what: string) => this.#checkOpen(what),
      instrumentation: () => this.#enqueuer.instrumentation,
    }
    this.#enqueuer = new Enqueuer(calling)
    this.#flowEngine = flowEngineOf({
      ...parts,
      random: settings.random,
      storeLimits: () => (this.#registry.isStored ? undefined : this.#storeLimits()),
    })
    this.limits = new LimitsApi({ ...parts, changing: this.#changing })
    this.jobs = new JobsApi({ ...parts, cancelRun })
    this.queues = new QueuesApi(parts)
    this.workers = new WorkersApi(parts)
    this.tasks = new TasksApi(parts)
    this.schedules = new SchedulesApi(parts)
    this.flows = new FlowsApi({ ...calling, store, cancelRun })
    const starter = new FlowStarter({ ...calling, flows: this.#flowEngine, place: this.#place.identity })
    keepInternals(this, {
      ...parts,
      starter,
      settings,
      queueLimits,
      newId: calls.newId,
      state: () => ({ isRunning: this.#worker !== null, backends: this.#open?.budgets?.backends ?? [] }),
      open,
      onStop: (stop) => (this.#stopping ? stop() : void this.#onStop.push(stop)),
    })
    const { tasks, workflows = [] } = options
    this.#unbind = [...tasks.map((t) => bind(t, this.#enqueuer)), ...workflows.map((w) => bindWorkflow(w, starter))]
    this.#detach = this.#attach(clock)
  }

  #listeningOf(settings: EngineSettings): Listening {
    return new Listening({
      ...settings,
      wakeup: this.#wakeup,
      store: async () => (await this.#opening.done()).store,
      checkOpen: (what) => this.#checkOpen(what),
    })
  }

  /** Lets a manual clock wait for this engine. */
  #attach(clock: Clock): (() => void) | undefined {
    return clock.attach?.({
      pending: () => this.#isLoading || this.#listening.isLoading || (this.#store?.pending ?? false),
      running: () => this.#worker?.running ?? 0,
    })
  }

  /** Starts to run jobs. After a failure it may be called again. @throws {SluiceError} `engine.stopped` */
  async start(): Promise<void> {
    if (this.#stopping) throw new SluiceError('engine.stopped', 'The engine was stopped. Create a new engine.')
    if (this.#worker) throw new SluiceError('engine.started', 'The engine is already running. Call start() once.')
    return this.#starting.done()
  }

  /**
   * Stops the engine. It takes no more jobs and lets running ones finish for `within` (default 30 s). Then it aborts
   * their signals, waits 5 s, and gives back those that still run. Nothing is lost, and the store is closed. It ends
   * within `within` plus 6 s, even if the store does not answer; then other workers get the jobs once their leases end.
   */
  stop(options: { within?: Duration } = {}): Promise<void> {
    checkOptions(options, ['within'], 'stop')
    const { within = '30s' } = options
    this.#stopping ??= this.#stop(durationMs(within, 'within'))
    return this.#stopping
  }

  /** Stores one call of a task durably. @throws {SluiceError} the codes of `task.enqueue` */
  async enqueue<I, O, R>(
    task: Task<I, O, R>,
    ...args: undefined extends I ? [input?: I, options?: EnqueueOptions<O>] : [input: I, options?: EnqueueOptions<O>]
  ): Promise<Job<R>> {
    const [input, options = {}] = args
    return (await this.#enqueuer.enqueueAll(listed(this.#tasks, task), [input], options))[0] as Job<R>
  }

  /**
   * Registers recurring calls of a task. The store keeps them until they are removed. A call with the same name and
   * content changes nothing; one with other content changes the schedule and keeps its count of runs. The engines of
   * the store fire each occurrence once, without a leader.
   *
   * The input may be omitted if the task has none. Each occurrence is a job under the task's limits. Limits may delay
   * its run, but not the due times. An occurrence that could start only after `until` or a limit's `maxWait` is
   * skipped, and does not count as a run.
   * @throws {SluiceError} `schedule.invalid`, `task.unknown`, `engine.stopped`, and the codes of `enqueue` for the
   * input and the limits
   */
  async schedule<I, O, R>(
    task: Task<I, O, R>,
    ...args: undefined extends I
      ? [options: ScheduleOptions<O>] | [input: I, options: ScheduleOptions<O>]
      : [input: I, options: ScheduleOptions<O>]
  ): Promise<ScheduleView> {
    const definition = listed(this.#tasks, task)
    const [input, options] =
      args.length > 1 ? (args as [I, ScheduleOptions<O>]) : [undefined, args[0] as ScheduleOptions<O>]
    this.#checkOpen(`scheduled for ${definition.name}`)
    const job = await prepare(this.#calls, definition, input, jobOptions(definition, options))
    return scheduleViewOf((await this.schedules.register(options, job)).schedule)
  }

  /** Wraps every enqueue and run, in place of an earlier wrapper; null: none. See `sluice/opentelemetry`. */
  instrument(instrumentation: Instrumentation | null): void {
    if (instrumentation !== null) checkMethods(instrumentation, ['enqueue', 'run'], 'instrumentation')
    this.#enqueuer.instrumentation = instrumentation
  }

  #checkOpen(what: string): void {
    const message = `The engine was stopped: nothing was ${what}. Create a new engine.`
    if (this.#stopping) throw new SluiceError('engine.stopped', message)
  }

  /**
   * Estimates the time that a limit's backlog takes: the jobs that wait now before the buckets in their present state,
   * or an assumed backlog and policy.
   * @throws {SluiceError} `limit.unknown`, `policy.invalid`, `option.invalid`, `limit.weight.invalid`,
   * `limit.weight.above_burst`
   */
  async forecast(limit: Limit | string, options: LiveForecastOptions = {}): Promise<Forecast> {
    return forecastLimit((await this.#opening.done()).store, limit, options)
  }

  async #openStore(): Promise<OpenStore> {
    refuseFakedTimers()
    const opened = this.#store ?? (await this.#loadStore())
    await opened.open()
    const definitions = this.#registry.definitions()
    const changed = await opened.define(definitions)
    this.#registry.stored(definitions)
    const declared = this.#queueLimits.declared()
    if (declared.length > 0) changed.push(...(await opened.declareQueues(declared)))
    for (const { queue, stripes } of this.#settings.queues)
      if (stripes !== null) await opened.stripeQueue(queue, stripes)
    const parts = { events: this.#events, wakeup: this.#wakeup, limits: this.#registry, newId: this.#calls.newId }
    const { store, budgets } = await withBackends(opened, this.#settings, parts)
    const reporter = this.#reporterOf(store)
    const resolver = new Resolver(store, this.#tasks, this.#calls, this.#settings.trouble, reporter)
    this.#open = { store, reporter, resolver, budgets }
    if (changed.length > 0) this.#wakeup.notify('work')
    return this.#open
  }

  /** A manual clock stands still meanwhile, as it does for any call of the store. */
  async #loadStore(): Promise<Store> {
    this.#isLoading = true
    try {
      const store = await this.#load()
      // The stop did not wait for it.
      this.#checkLetGo()
      return (this.#store = store)
    } finally {
      this.#isLoading = false
    }
  }

  #checkLetGo(): void {
    if (!this.#closed) return
    throw new SluiceError('engine.stopped', 'The engine was stopped and serves no more requests.')
  }

  /** Stores the limits that the code of flows has used for the first time. */
  async #storeLimits(): Promise<void> {
    const { store } = await this.#opening.done()
    if (await this.#registry.store(store)) this.#wakeup.notify('work')
  }

  async #openForOthers(): Promise<OpenStore> {
    this.#checkLetGo()
    return this.#opening.done()
  }

  async #start(): Promise<void> {
    if (this.#stopping) throw new SluiceError('engine.stopped', 'The engine was stopped. Create a new engine.')
    const { store, reporter } = await this.#opening.done()
    const { clock, queues, queueTerms, random, maxPenaltyUs } = this.#settings
    warnUnserved(this.#tasks.values(), this.#settings)
    this.#worker = await Worker.start({
      store,
      reporter,
      figures: this.#figures,
      settings: this.#settings,
      queues: queues
        .filter(({ concurrency }) => concurrency > 0)
        .map(({ queue, concurrency }) => ({ queue, concurrency })),
      tasks: this.#tasks,
      outcomes: { clock, random, maxPenaltyUs, queueTerms, limits: this.#registry },
      flows: this.#flowEngine,
      events: this.#events,
      wakeup: this.#wakeup,
      budgets: this.#open?.budgets ?? null,
      changing: this.#changing,
      trim: (task, count) => trimTask(store, clock, task, count),
      instrumentation: () => this.#enqueuer.instrumentation,
    })
  }

  #reporterOf(store: Store): Reporter {
    return new Reporter({
      ...this.#settings,
      store,
      events: this.#events,
      figures: this.#figures,
      limits: this.#registry,
      tasks: this.#tasks,
      results: this.#results,
      servedQueues: this.#servedQueues,
      unresolved: (kinds) => this.#open?.resolver.found(kinds),
    })
  }

  /** Stops in order while the store answers in time, otherwise without it. */
  async #stop(withinMs: number): Promise<void> {
    const { clock, logger } = this.#settings
    for (const stop of this.#onStop) stop()
    const ended = this.#endInOrder(withinMs)
    if (await settlesWithin(clock, ended, withinMs + STOP_GRACE_MS)) return ended
    logger.error(
      {},
      'the store did not answer in time, and the engine has stopped without it; other workers get the jobs of this process once their leases end',
    )
    ended.catch((error: unknown) => logger.warn({ err: error }, 'the engine could not be stopped in order'))
    this.#letGo()
    await this.#store?.close({ now: true })
    this.#detach?.()
  }

  async #endInOrder(withinMs: number): Promise<void> {
    await this.#starting.settled()
    await this.#worker?.stop(withinMs)
    await this.#budgets.close()
    await this.#opening.settled()
    await this.#open?.resolver.stop()
    await this.#open?.budgets?.stop()
    await this.#listening.stop()
    this.#letGo()
    await this.#store?.close()
    this.#detach?.()
  }

  #letGo(): void {
    this.#closed = true
    this.#results.close()
    for (const unbind of this.#unbind) unbind()
  }
}
