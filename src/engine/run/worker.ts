import { mayPass } from '../../base/errors.ts'
import { persist } from '../../base/persist.ts'
import { settlesWithin } from '../../base/within.ts'
import type { Admitted, Settled } from '../../jobs/job.ts'
import type { Answer } from '../../jobs/header-source.ts'
import type { Change, Run, Store } from '../../store/contract/store.ts'
import { Chores } from './maintenance.ts'
import { Dispatcher, type ServedQueue } from './dispatch.ts'
import type { Events } from '../events/events.ts'
import { Feedback } from './feedback.ts'
import type { Instrumentation } from '../events/instrumentation.ts'
import type { EngineSettings } from '../define/options.ts'
import { about, type Reporter } from './report.ts'
import { JobRun, type RunHost } from './attempt.ts'
import { judge, type JudgeContext, type Verdict } from './outcome.ts'
import type { TaskDefinition } from '../define/task.ts'

/** What a worker is made of. */
export interface WorkerOptions {
  readonly store: Store
  readonly settings: EngineSettings
  readonly queues: readonly ServedQueue[]
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  readonly judge: JudgeContext
  readonly events: Events
  readonly reporter: Reporter
  readonly instrumentation: () => Instrumentation | null
  /** Told when a run was settled: its permits may serve others. */
  readonly freed: () => void
}

const FALLBACK_POLL_MS = 5000
const RECOVER_EVERY_MS = 5000
const PRUNE_EVERY_MS = 60_000
const PRUNE_AT_ONCE = 1000
const ABORT_GRACE_MS = 5000
/** Longer than the longest pause between two tries of a heartbeat. */
const GRACE_US = 2_500_000
/** A run that ended is settled as long as its lease holds, and for so long at least: if nobody could take the job, it still counts. */
const SETTLES_FOR_MS = 120_000
const A_SETTLEMENT = 'the settlement of a run'
const CANCELLATIONS = 'the look for cancelled jobs'
/** Of these the oldest are forgotten first: their leases are long over. */
const GIVEN_UP_AT_MOST = 10_000

/** This process's share of the work: it claims, runs and settles, keeps its leases, and takes back what others lost. */
export class Worker implements RunHost {
  readonly clock: EngineSettings['clock']
  readonly logger: EngineSettings['logger']
  readonly handlerLogger: EngineSettings['logger']
  readonly #options: WorkerOptions
  readonly #id: number
  readonly #runs = new Map<number, JobRun>()
  /** Runs that ended and could not be settled yet: their leases are extended too. */
  readonly #unsettled = new Set<Admitted>()
  /** Claimed jobs, until they have settled. */
  readonly #held = new Set<Admitted>()
  /** Runs whose settlement was given up: they have cost their attempt, and wait for the end of their lease. */
  #givenUp: readonly Run[] = []
  readonly #dispatcher: Dispatcher
  readonly #chores: Chores
  readonly #feedback: Feedback
  readonly #stopWatching: () => void
  /** When leases were extended last, by the steady clock. */
  #beatenUs: number
  /** Until then it takes nothing back: the store was in trouble, and other workers may be about to extend their leases. */
  #graceUntilUs = 0
  #settling = 0
  #whenIdle: (() => void) | null = null

  private constructor(id: number, options: WorkerOptions) {
    const { store, settings, queues, reporter } = options
    this.#id = id
    this.#options = options
    this.clock = settings.clock
    this.logger = settings.logger
    this.handlerLogger = settings.handlerLogger
    this.#beatenUs = this.clock.monotonicUs()
    this.#dispatcher = new Dispatcher({
      store,
      queues,
      tasks: [...options.tasks.keys()],
      clock: this.clock,
      logger: this.logger,
      trouble: settings.trouble,
      worker: id,
      leaseUs: settings.leaseUs,
      eventWindowUs: settings.eventWindowUs,
      held: () => [...this.#held, ...this.#givenUp],
      start: (job) => void this.#run(job),
      claimed: (claim) => reporter.claimed(claim),
    })
    this.#feedback = new Feedback({
      worker: id,
      store,
      clock: this.clock,
      logger: this.logger,
      trouble: settings.trouble,
      events: options.events,
      tasks: options.tasks,
      judge: options.judge,
      running: () => [...this.#runs.values()].map((run) => run.job),
      isRunning: (job) => this.#runs.get(job.seq)?.job === job,
      ring: () => this.ring(),
    })
    this.#chores = new Chores(this.clock, settings.trouble, [
      // Due together, leases are extended before others' are looked at.
      { name: 'a heartbeat', everyMs: settings.heartbeatMs, work: () => this.#beat() },
      { name: 'the fallback poll', everyMs: FALLBACK_POLL_MS, work: async () => this.#dispatcher.poll() },
      {
        name: 'the recovery of lost jobs',
        everyMs: RECOVER_EVERY_MS,
        work: () => this.#recover(),
      },
      { name: 'pruning', everyMs: PRUNE_EVERY_MS, work: () => this.#prune() },
    ])
    this.#stopWatching = store.watch((change) => void this.#changed(change))
  }

  /** Registers with the store, takes back what dead workers of this host left, and begins to work. */
  static async start(options: WorkerOptions): Promise<Worker> {
    const queues = options.queues.map((each) => each.queue)
    const worker = new Worker(
      await options.store.join(queues, options.settings.leaseUs, [...options.tasks.keys()]),
      options,
    )
    try {
      await worker.#recover()
    } catch (error) {
      // Else it would go on extending leases and looking for lost ones, though nobody holds it.
      worker.#rest()
      throw error
    }
    worker.#dispatcher.start()
    options.events.emit('worker.started', { worker: worker.#id, queues })
    return worker
  }

  /** Handlers that are running. */
  get running(): number {
    return this.#runs.size
  }

  get instrumentation(): Instrumentation | null {
    return this.#options.instrumentation()
  }

  /** Something has changed that may let a job start. */
  ring(): void {
    this.#dispatcher.ring()
  }

  /** Permits have come back: who serves no queue has no use for them. */
  freed(): void {
    if (this.#options.queues.length > 0) this.#dispatcher.ring()
  }

  /** A delayed job was stored. */
  delayed(): void {
    this.#dispatcher.delayed()
  }

  /** A schedule may be due, whether or not a slot is free. */
  look(): void {
    this.#dispatcher.look()
  }

  /** Aborts a run of this process that somebody cancelled. */
  cancel(id: string): void {
    for (const run of this.#runs.values()) if (run.job.id === id) run.abort('cancel', true)
  }

  /**
   * Finishes what runs, for at most `withinMs`; then aborts it, waits 5 s, and gives back what still has not ended. It ends no sooner than
   * the store has answered: whoever cannot wait for that closes the store.
   */
  async stop(withinMs: number): Promise<void> {
    const idle = this.#idle()
    if (!(await settlesWithin(this.clock, idle, withinMs))) {
      for (const run of this.#runs.values()) run.abort('stop', false)
      if (!(await settlesWithin(this.clock, idle, ABORT_GRACE_MS)))
        for (const run of this.#runs.values()) run.abort('stop', true)
      await idle
    }
    this.#rest()
    try {
      await this.#options.store.leave(this.#id)
    } catch (error) {
      this.#trouble.tell('warn', error, {}, 'the worker could not sign off; it counts as dead once its lease is over')
    }
    this.#options.events.emit('worker.stopped', { worker: this.#id })
  }

  #rest(): void {
    this.#stopWatching()
    this.#chores.stop()
  }

  charge(job: Admitted, limit: string, units: number): void {
    this.#feedback.charge(job, limit, units)
  }

  observe(job: Admitted, answer: Answer): void {
    this.#feedback.observe(job, answer)
  }

  progress(job: Admitted, progress: number): void {
    this.#options.events.emit('job.progress', { ...about(job), progress })
  }

  async #run(job: Admitted): Promise<void> {
    const { tasks, reporter, judge: context } = this.#options
    this.#held.add(job)
    const task = tasks.get(job.task)
    if (!task) throw new RangeError(`The job ${job.id} was claimed, but its task ${job.task} is not listed here`)
    reporter.started(job)
    const run = new JobRun(job, task, this)
    this.#runs.set(job.seq, run)
    const end = await run.run()
    this.#runs.delete(job.seq)
    await this.#settle(job, task, judge(context, job, task, end), run.input)
  }

  async #settle(job: Admitted, task: TaskDefinition | null, verdict: Verdict, input: unknown): Promise<void> {
    const { reporter } = this.#options
    this.#settling++
    this.#feedback.refused(job, verdict.error)
    const settling = this.#write(job, verdict)
    // The slot is free in the transaction that settles the job: the claim that fills it again shares its commit.
    this.#dispatcher.finished(job.queue)
    try {
      const settled = await settling
      this.#options.freed()
      if (settled.kind === 'lost') reporter.lost(job)
      else {
        reporter.settled(job, task, verdict, settled, input)
        if (settled.flow) this.ring()
      }
    } catch (error) {
      this.#givenUp = [...this.#givenUp.slice(1 - GIVEN_UP_AT_MOST), { seq: job.seq, attempt: job.attempt }]
      this.#trouble.tell(
        'error',
        error,
        { job: job.id, task: job.task },
        'a run could not be settled; its lease will end and the job runs again',
      )
    }
    this.#settling--
    this.#held.delete(job)
    if (this.#runs.size === 0 && this.#settling === 0) this.#whenIdle?.()
  }

  /** Settles a run, again as long as the store is in trouble: guarded by its lease, it counts once or not at all. */
  async #write(job: Admitted, { settlement }: Verdict): Promise<Settled> {
    const { store, settings } = this.#options
    const forMs = Math.max(settings.leaseUs / 1000, SETTLES_FOR_MS)
    try {
      const settled = await persist(
        this.clock,
        forMs,
        (again) => store.settle(this.#id, { ...settlement, startedUs: job.startedUs }, again),
        (error) => {
          if (!this.#unsettled.has(job)) this.#dispatcher.hold(job.queue)
          this.#unsettled.add(job)
          this.#trouble.failed(A_SETTLEMENT, error)
        },
      )
      this.#trouble.over(A_SETTLEMENT)
      return settled
    } finally {
      if (this.#unsettled.delete(job)) this.#dispatcher.finished(job.queue)
    }
  }

  get #trouble(): EngineSettings['trouble'] {
    return this.#options.settings.trouble
  }

  async #recover(): Promise<void> {
    const { store, reporter } = this.#options
    if (this.#isLate())
      try {
        await this.#beat()
      } catch (error) {
        if (mayPass(error)) throw error
      }
    if (this.clock.monotonicUs() < this.#graceUntilUs) return
    const recovered = await store.recover()
    reporter.recovered(recovered)
    if (recovered.length > 0) this.ring()
  }

  async #beat(): Promise<void> {
    this.#dispatcher.check()
    const runs = new Map(this.#runs)
    const jobs = [...[...runs.values()].map((run) => run.job), ...this.#unsettled]
    const { cancelled, lost } = await this.#options.store.heartbeat(this.#id, jobs, this.#options.settings.leaseUs)
    if (this.#isLate()) this.#graceUntilUs = this.clock.monotonicUs() + GRACE_US
    this.#beatenUs = this.clock.monotonicUs()
    // What runs now may be a later run of the same job.
    const abort = (seq: number, by: 'cancel' | 'lease'): void => {
      const run = runs.get(seq)
      if (run && run === this.#runs.get(seq)) run.abort(by, by === 'cancel')
    }
    for (const seq of cancelled) abort(seq, 'cancel')
    for (const seq of lost) abort(seq, 'lease')
  }

  /** After trouble with the store, or a halt of this process, leases may be over though their runs are not. */
  #isLate(): boolean {
    return this.clock.monotonicUs() - this.#beatenUs > 2000 * this.#options.settings.heartbeatMs
  }

  async #prune(): Promise<void> {
    while ((await this.#options.store.prune(PRUNE_AT_ONCE)) >= PRUNE_AT_ONCE);
  }

  /** Somebody has written: there may be work, and runs of this process may have been cancelled. */
  async #changed(change: Change): Promise<void> {
    if (change !== 'ended' && change !== 'cancelled') {
      this.ring()
      this.#options.freed()
    }
    if (this.#runs.size === 0 || change === 'ended' || change === 'work') return
    try {
      for (const seq of await this.#options.store.cancellations(this.#id)) this.#runs.get(seq)?.abort('cancel', true)
      this.#trouble.over(CANCELLATIONS)
    } catch (error) {
      this.#trouble.failed(CANCELLATIONS, error)
    }
  }

  /** Claims no more; answers once no claim is on its way and nothing runs or is being settled. */
  async #idle(): Promise<void> {
    await this.#dispatcher.stop()
    while (this.#runs.size > 0 || this.#settling > 0)
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve
      })
  }
}
