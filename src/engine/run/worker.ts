import { hostname } from 'node:os'
import type { Timer } from '../../base/clock.ts'
import { settlesWithin } from '../../base/promises.ts'
import { storableText } from '../../base/text.ts'
import type { Change, Store } from '../../store/contract/store.ts'
import type { FlowEngine } from '../define/flow-entry.ts'
import type { EngineSettings } from '../define/options.ts'
import type { TaskDefinition } from '../define/task.ts'
import type { Events } from '../events/events.ts'
import type { Instrumentation } from '../events/instrumentation.ts'
import type { Wakeup } from '../events/wakeup.ts'
import type { Budgets } from './budgets.ts'
import { Dispatcher } from './dispatch.ts'
import { Feedback } from './feedback.ts'
import { HeldRuns } from './held-runs.ts'
import { aheadOf, type BucketName, type Changing } from '../../jobs/hold.ts'
import { Keeping } from './keeping.ts'
import { KeptNotes } from './kept-notes.ts'
import { Leases } from './leases.ts'
import type { Figures } from '../events/figures.ts'
import { Maintenance } from './maintenance.ts'
import type { OutcomeContext } from './settle.ts'
import { SeriesWriter } from './series-writer.ts'
import type { Reporter } from './report.ts'
import type { ServedQueue } from './slots.ts'

/** The parts of a worker. */
export interface WorkerOptions {
  readonly store: Store
  readonly settings: EngineSettings
  readonly queues: readonly ServedQueue[]
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  readonly outcomes: OutcomeContext
  readonly flows: FlowEngine
  readonly events: Events
  readonly reporter: Reporter
  readonly wakeup: Wakeup
  /** Runs a change of limits, before which all granted starts of this engine that use them go back. */
  readonly changing: Changing
  /** The budgets that backends keep; null: there are none. */
  readonly budgets: Budgets | null
  readonly figures: Figures
  /** Deletes ended jobs of a task beyond the newest so many. */
  readonly trim: (task: string, count: number) => Promise<void>
  readonly instrumentation: () => Instrumentation | null
}

/** The longest time between two claims of a running engine. */
export const FALLBACK_POLL_MS = 5000
const RECOVER_EVERY_MS = 5000
const PRUNE_EVERY_MS = 60_000
const REPORTS_EVERY_MS = 5_000
const SERIES_EVERY_MS = 10_000
const PRUNE_AT_ONCE = 1000
const ABORT_GRACE_MS = 5000

/** This process's part of the work: it joins, claims, keeps its leases, and leaves. */
export class Worker {
  readonly #id: number
  readonly #options: WorkerOptions
  readonly #held = new HeldRuns()
  readonly #dispatcher: Dispatcher
  readonly #leases: Leases
  readonly #maintenance: Maintenance
  readonly #series: SeriesWriter
  readonly #notes: KeptNotes
  readonly #keeping: Keeping
  readonly #stopWatching: () => void
  #isResting = false
  /** The end of a lease that comes before the next routine. */
  #returning: Timer | null = null

  private constructor(id: number, options: WorkerOptions) {
    const { settings, ...parts } = options
    const { clock, trouble } = settings
    const { budgets } = parts
    this.#id = id
    this.#options = options
    const aheadUs = aheadOf(settings.aheadUs, clock, parts.store)
    const notes = (this.#notes = new KeptNotes({ ...settings, store: parts.store }))
    const keeping = (this.#keeping = new Keeping({ ...settings, ...parts }))
    const shared = { ...settings, ...parts, aheadUs, worker: id, held: this.#held, keeping, notes }
    const dispatcher = (this.#dispatcher = new Dispatcher({ ...shared, feedback: new Feedback(shared) }))
    this.#leases = new Leases({ ...shared, dispatcher })
    this.#series = new SeriesWriter(parts.store, parts.figures.series, id)
    this.#maintenance = new Maintenance(clock, trouble, [
      // Among routines that are due together, leases are extended before others' are checked.
      { name: 'a heartbeat', everyMs: settings.heartbeatMs, work: () => this.#leases.beat() },
      { name: 'the fallback poll', everyMs: FALLBACK_POLL_MS, work: async () => this.#dispatcher.poll() },
      { name: 'the recovery of lost jobs', everyMs: RECOVER_EVERY_MS, work: () => this.#leases.recover() },
      { name: 'the return of permits', everyMs: RECOVER_EVERY_MS, work: () => this.#tidy() },
      ...(budgets
        ? [{ name: 'the reports of backends', everyMs: REPORTS_EVERY_MS, work: () => budgets.reports.routine() }]
        : []),
      { name: 'the write of the series', everyMs: SERIES_EVERY_MS, work: () => this.#series.flush() },
      { name: 'pruning', everyMs: PRUNE_EVERY_MS, work: () => this.#prune() },
    ])
    this.#stopWatching = options.store.watch(
      (change) => this.#changed(change),
      (error) => settings.logger.warn({ err: error }, 'this process does not hear of the commits of others at once'),
    )
  }

  /** Registers with the store, recovers the jobs of dead workers of this host, and begins to work. */
  static async start(options: WorkerOptions): Promise<Worker> {
    const { events, settings, store, tasks } = options
    const queues = options.queues.map((each) => each.queue)
    const concurrency = options.queues.reduce((sum, each) => sum + each.concurrency, 0)
    const about = JSON.stringify({ hostname: storableText(hostname()), pid: process.pid, concurrency })
    const worker = new Worker(await store.join(queues, settings.leaseUs, [...tasks.keys()], about), options)
    try {
      await worker.#leases.recover()
    } catch (error) {
      // Otherwise it would keep extending leases and recovering jobs, though nothing holds it.
      worker.#rest()
      throw error
    }
    worker.#dispatcher.start()
    events.emit('worker.started', { worker: worker.#id, queues })
    return worker
  }

  /** The number of running handlers. */
  get running(): number {
    return this.#held.calls.size
  }

  /** Ends a cancelled run of this process: aborts it, or gives it back if it has not begun. */
  async cancel(id: string): Promise<void> {
    for (const call of this.#held.calls.values()) if (call.job.id === id) call.abort('cancel', true)
    await this.#dispatcher.cancelHeld((job) => job.id === id)
  }

  /** Runs a change of limits, before which the held starts that use them go back. */
  changing<T>(uses: (use: BucketName) => boolean, change: () => Promise<T>): Promise<T> {
    return this.#dispatcher.changing(uses, change)
  }

  /**
   * Finishes running jobs for at most `withinMs`. Then it aborts them, waits 5 s, and gives back those that have not
   * ended.
   * It waits for the store's answer; a caller that cannot wait closes the store.
   */
  async stop(withinMs: number): Promise<void> {
    const { events, settings, store } = this.#options
    const { clock, trouble } = settings
    const idle = this.#idle()
    if (!(await settlesWithin(clock, idle, withinMs))) {
      this.#abortAll(false)
      if (!(await settlesWithin(clock, idle, ABORT_GRACE_MS))) this.#abortAll(true)
      await idle
    }
    this.#rest()
    await this.#notes.flush()
    await this.#series.flush(true).catch(() => undefined)
    try {
      await store.leave(this.#id)
    } catch (error) {
      trouble.report('warn', error, {}, 'the worker could not deregister; it counts as dead once its lease ends')
    }
    events.emit('worker.stopped', { worker: this.#id })
  }

  /** Stops claiming. Resolves once no claim is running and no run is active or being settled. */
  async #idle(): Promise<void> {
    await this.#dispatcher.stop()
    await this.#held.idle()
  }

  #abortAll(now: boolean): void {
    for (const call of this.#held.calls.values()) call.abort('stop', now)
  }

  #rest(): void {
    this.#isResting = true
    this.#returning?.cancel()
    this.#stopWatching()
    this.#maintenance.stop()
  }

  /** Returns what processes without jobs have left behind, and does it again when the next lease ends. */
  async #tidy(): Promise<void> {
    const { settings, store, wakeup } = this.#options
    const { woke, nextUs } = await store.budgets.tidy()
    if (woke) wakeup.notify('work')
    const delayMs = nextUs === null ? Infinity : (nextUs - store.nowUs()) / 1000
    this.#returning?.cancel()
    if (this.#isResting || delayMs >= RECOVER_EVERY_MS) return
    // A failure is told by the next routine.
    const again = (): void => void this.#tidy().catch(() => undefined)
    this.#returning = settings.clock.setTimer(again, Math.max(1, delayMs))
  }

  async #prune(): Promise<void> {
    const { settings, store } = this.#options
    await store.rollSeries(settings.clock.now())
    await this.#keeping.retain()
    while ((await store.prune(PRUNE_AT_ONCE)) >= PRUNE_AT_ONCE);
    await this.#keeping.trim()
  }

  /** Another process has written: there may be work, and runs of this process may have been cancelled. */
  #changed(change: Change): void {
    if (change !== 'ended' && change !== 'cancelled') this.#options.wakeup.notify('work')
    if (change !== 'ended' && change !== 'work') void this.#leases.endCancelled()
  }
}
