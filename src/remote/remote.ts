import { fromJsonText } from '../base/json-value.ts'
import type { NewJob } from '../jobs/job.ts'
import type { Settlement } from '../jobs/settlement.ts'
import { penaltyUs } from '../jobs/rate-limited.ts'
import type { RetryAfter } from '../jobs/rate-limit-headers.ts'
import type { JobDetails, PushAnswer } from '../store/contract/remote-jobs.ts'
import type { DeclaredQueue, Store } from '../store/contract/store.ts'
import type { LimitDefinition } from '../policy/limits/limit.ts'
import type { Sluice } from '../engine/engine.ts'
import { type EngineInternals, internalsOf } from '../engine/internals.ts'
import { HandedRuns } from './handed-runs.ts'
import { LostClaims } from './lost-claims.ts'
import { RemoteClaims, type RemoteFetch } from './claims.ts'
import { errorOf, type Failure, settlementOfFailure, notBefore, retryTermsOf } from './retry.ts'
import { readFeedback } from './feedback.ts'
import {
  asRun,
  firstUse,
  handed,
  type Holder,
  isHolder,
  pushedBack,
  type RemoteSettled,
  settleById,
  settleHanded,
  type SettlementOf,
  timedOut,
} from './settle.ts'
import { endOf, isStale } from './times.ts'
import { RemoteWorkers } from './workers.ts'
import type { Budgets } from '../engine/run/budgets.ts'
import type { Reporter } from '../engine/run/report.ts'
import { Sweeper } from './sweeper.ts'
import { withOwnLimits } from './own-limits.ts'

const SWEEP_AT_ONCE = 100
const MAX_PUSH_BACKS = 100

const REMOTES = new WeakMap<Sluice, Remote>()

/** The remote work of an engine. All servers on the engine share it. */
export function remoteOf(sluice: Sluice): Remote {
  const known = REMOTES.get(sluice)
  if (known) return known
  const remote = new Remote(internalsOf(sluice))
  REMOTES.set(sluice, remote)
  return remote
}

/** Work over a protocol for other processes: the engine's own verbs, by job ids and worker names. */
export class Remote {
  readonly #engine: EngineInternals
  readonly #lost: LostClaims
  readonly #claims: RemoteClaims
  readonly #workers = new RemoteWorkers()
  readonly #runs = new HandedRuns()
  #reporter: Reporter | null = null
  #budgets: Budgets | null = null
  readonly #sweeper: Sweeper
  #stopWatching: (() => void) | null = null
  /** Settlements that a store in trouble has refused, and that are repeated. */
  readonly #repeated = new Set<Promise<unknown>>()

  constructor(engine: EngineInternals) {
    const { figures, newId, settings, wakeup } = engine
    const { clock, logger, trouble } = settings
    this.#engine = engine
    this.#lost = new LostClaims({ clock, logger, wakeup })
    this.#claims = new RemoteClaims({
      clock,
      newId,
      lost: this.#lost,
      figures,
      wakeup,
      reporter: () => this.#reporter,
      budgets: () => this.#budgets,
    })
    this.#sweeper = new Sweeper(clock, trouble, (store) => this.#sweepOnce(store))
    engine.onStop(() => this.stop())
  }

  /** The store, for reads. @throws {SluiceError} `engine.stopped` */
  store(): Promise<Store> {
    return this.#open()
  }

  /** Stores jobs with resolved limits, and the limits that come with them, all or nothing. */
  async push(jobs: readonly NewJob[], limits: readonly LimitDefinition[]): Promise<PushAnswer> {
    const store = await this.#open()
    const { events, servedQueues, tasks, wakeup } = this.#engine
    const answer = await store.push(jobs, limits)
    if (answer.kind === 'refused') return answer
    for (const [i, { kind }] of answer.answers.entries()) {
      const job = jobs[i] as NewJob
      if (kind === 'created') events.emit('job.enqueued', { id: job.id, task: job.task, queue: job.queue })
    }
    servedQueues.enqueued(jobs)
    if (limits.length > 0 || jobs.some((job) => job.runAtMs !== null || job.expiresAtMs !== null)) this.notify()
    else if (!store.notifiesOwnWrites && jobs.some(({ task }) => tasks.has(task))) wakeup.notify('work')
    else this.#claims.wake()
    return answer
  }

  /** Adds to a remote client's job the limits of its task and its queue. */
  withLimits(job: NewJob): NewJob {
    const { tasks, limits, queueLimits } = this.#engine
    return withOwnLimits(job, tasks, limits, queueLimits)
  }

  /** Reads one job after due work is done. */
  async get(id: string): Promise<JobDetails | null> {
    const store = await this.#open()
    const job = await store.details(id)
    if (!job || !isStale(job, this.#engine.settings.clock.now(), store.nowUs())) return job
    if (job.state === 'active') await this.#sweeper.now(store)
    else await this.#tidy(store)
    return store.details(id)
  }

  /** Takes jobs for a remote worker, as any claim does. It waits for work if the request allows it. */
  async fetch(request: RemoteFetch): Promise<readonly JobDetails[]> {
    const store = await this.#open()
    const fetched = await this.#workers.during(store, request, async () => {
      const { worker: name, queues, tasks = null } = request
      const { worker, directive } = await this.#workers.register(store, name, queues, null, tasks)
      return directive === 'running' ? this.#claims.fetch(store, worker, request) : []
    })
    const jobs = handed(fetched, store.nowUs())
    this.#runs.add(jobs)
    this.#sweeper.armAt(store, Math.min(...jobs.map(endOf)))
    return jobs
  }

  /** Settles a run that succeeded. @param result JSON text */
  complete(id: string, holder: Holder, result: string | null): Promise<RemoteSettled> {
    return this.#settle(id, holder, ({ seq, attempt }) => ({ seq, attempt, kind: 'complete', result }))
  }

  /** Settles a run that failed: its retry terms decide between a retry and the end. */
  fail(id: string, holder: Holder, failure: Failure): Promise<RemoteSettled> {
    return this.#settle(id, holder, (job) => this.#afterFailure(job, failure))
  }

  /**
   * Settles a run that an API refused. It closes the bucket of the job's first limit, or reschedules the job. The
   * attempt is not charged.
   */
  pushBack(id: string, holder: Holder, failure: Failure, retryAfter: RetryAfter): Promise<RemoteSettled> {
    const { clock, maxPenaltyUs } = this.#engine.settings
    const basis = { nowMs: clock.now(), intervalUs: 1_000_000, periodUs: 1_000_000, maxPenaltyUs }
    return this.#settle(id, holder, async (job, store) => {
      const closedForUs = penaltyUs({ retryAfter }, basis)
      if (job.pushedBack + 1 >= MAX_PUSH_BACKS) return notBefore(this.#afterFailure(job, failure), closedForUs)
      return pushedBack(job, failure, await firstUse(store, job), closedForUs)
    })
  }

  /** Settles a run that its worker gave up. The job returns to its lane, and the attempt is not charged. */
  giveUp(id: string, holder: Holder): Promise<RemoteSettled> {
    return this.#settle(id, holder, ({ seq, attempt }) => ({ seq, attempt, kind: 'give-back' }))
  }

  /** Settles a run whose job is to run again after a time, in µs. The attempt is not charged. */
  snooze(id: string, holder: Holder, delayUs: number): Promise<RemoteSettled> {
    return this.#settle(id, holder, ({ seq, attempt }) => ({ seq, attempt, kind: 'snooze', delayUs }))
  }

  /** Ends a cancelled run, since no process here can. False: it is no longer active, or an engine runs it. */
  async endCancelled(id: string): Promise<boolean> {
    const settled = await this.#settle(id, {}, ({ seq, attempt }) => ({ seq, attempt, kind: 'cancel' }))
    return settled.kind === 'settled'
  }

  /**
   * Extends the leases of a worker's jobs, and shortens none. Returns those that it still holds.
   * @param sees returns whether the caller may see a job
   */
  async heartbeat(
    name: string,
    ids: readonly string[],
    leaseUsOf: (job: JobDetails) => number,
    about: string | null,
    sees: (job: JobDetails) => boolean = () => true,
  ): Promise<{ readonly directive: string; readonly held: readonly JobDetails[] }> {
    const store = await this.#open()
    const { directive } = await this.#workers.register(store, name, [], about)
    const jobs = (await Promise.all(ids.map((id) => store.details(id)))).filter((job) => job !== null)
    const held: JobDetails[] = []
    await Promise.all(
      jobs.map(async (job) => {
        if (job.state !== 'active' || job.worker === null || !isHolder(job, { worker: name })) return
        if (!sees(job)) return
        const leaseUs = Math.max(leaseUsOf(job), (job.dueUs ?? 0) - store.nowUs())
        const { lost } = await store.heartbeat(job.worker, [job], leaseUs)
        if (lost.length === 0) held.push(job)
      }),
    )
    // Their leases end later now, but another process may have claimed them.
    if (held.length > 0) await this.#sweeper.arm(store)
    return { directive, held }
  }

  /** Starts the lease of a live run again. */
  async extend(job: JobDetails): Promise<void> {
    if (job.worker === null || job.leasedUs === null) return
    const store = await this.#open()
    await store.heartbeat(job.worker, [job], job.leasedUs)
  }

  /** Registers a worker and returns its directive. The worker may be unknown. */
  async registerWorker(name: string, queues: readonly string[], about: string | null): Promise<string> {
    return (await this.#workers.register(await this.#open(), name, queues, about)).directive
  }

  /** Drops the cached record of a worker that has changed. */
  forget(name: string): void {
    this.#workers.forget(name)
  }

  /** Defines limits, as an engine's start does. */
  async define(limits: readonly LimitDefinition[]): Promise<void> {
    await (await this.#open()).define(limits)
    this.notify()
  }

  /** Declares the needs of queues again, as an engine's start does. */
  async declareQueues(queues: readonly DeclaredQueue[]): Promise<void> {
    if (queues.length === 0) return
    await (await this.#open()).declareQueues(queues)
    this.notify()
  }

  /** Empties the store, for tests, and defines the limits of this engine again. */
  async clear(): Promise<void> {
    const store = await this.#open()
    await store.clear()
    this.#workers.clear()
    this.#runs.clear()
    await store.define(this.#engine.limits.definitions())
    await store.declareQueues(this.#engine.queueLimits.declared())
  }

  /** Reports a change that may let a job start, here or in this engine, now or later. */
  notify(): void {
    this.#engine.wakeup.notify('work')
    this.#engine.wakeup.notify('delayed')
  }

  /** Answers waiting fetches and refuses further waits. Other requests are served until the engine stops. */
  stop(): void {
    this.#claims.stop()
    this.#sweeper.stop()
    this.#lost.stop()
    this.#stopWatching?.()
  }

  async #open(): Promise<Store> {
    const { store, reporter, budgets } = await this.#engine.open()
    if (this.#reporter) return store
    this.#reporter = reporter
    this.#budgets = budgets
    this.#stopWatching ??= store.watch(() => this.#claims.wake())
    await this.#sweeper.arm(store)
    return store
  }

  async #settle(
    id: string,
    holder: Holder,
    settlementOf: SettlementOf,
    read: (id: string) => Promise<JobDetails | null> = (of) => this.get(of),
  ): Promise<RemoteSettled> {
    const store = await this.#open()
    let feedback: (() => Promise<void>) | null = null
    const { settings, events, tasks, wakeup } = this.#engine
    const { clock } = settings
    const place = { store, clock, refused: (): unknown => this.#repeated.add(settling) }
    const settle: SettlementOf = async (job) => {
      if (holder.feedback) feedback = await readFeedback({ ...settings, events }, store, job, holder.feedback)
      return settlementOf(job, store)
    }
    const settling = settleHanded(place, this.#runs.take(id), holder, settle)
      .then(async (done) => done ?? settleById(place, await read(id), holder, settle))
      .finally(() => this.#repeated.delete(settling))
    const { answer, settlement, settled } = await settling
    if (answer.kind !== 'settled' || !settlement || !settled) return answer
    const { before } = answer
    this.#budgets?.ended(before)
    await (feedback as (() => Promise<void>) | null)?.()
    const task = tasks.get(before.task) ?? null
    const error = 'error' in settlement ? errorOf(settlement.error) : null
    const input = task ? fromJsonText(before.input, undefined) : undefined
    this.#reporter?.settled(asRun(before), task, { settlement, error }, settled, input)
    if ('delayUs' in settlement || settlement.kind === 'push-back') this.notify()
    else wakeup.notify('permits')
    return answer
  }

  #afterFailure(job: JobDetails, failure: Failure): Settlement {
    const { settings, tasks } = this.#engine
    return settlementOfFailure(job, failure, retryTermsOf(job, tasks.get(job.task)?.retry), settings.random)
  }

  /** Promotes, fires and discards due work, and claims nothing. */
  async #tidy(store: Store): Promise<void> {
    this.#reporter?.claimed(await store.claim(() => ({ worker: 0, leaseUs: 1, queues: [] })))
  }

  /** Ends overdue runs, and recovers lost ones. */
  async #sweepOnce(store: Store): Promise<void> {
    // A worker's report from before the end counts, even if the store could not take it yet.
    await Promise.allSettled(this.#repeated)
    const { runs } = await store.overdueRuns(SWEEP_AT_ONCE)
    const read = (id: string): Promise<JobDetails | null> => store.details(id)
    for (const run of runs)
      await this.#settle(run.id, { attempt: run.attempt }, (job) => this.#afterFailure(job, timedOut(run)), read)
    const recovered = await store.recover()
    this.#reporter?.recovered(recovered)
    if (recovered.length > 0) this.#engine.wakeup.notify('work')
  }
}
