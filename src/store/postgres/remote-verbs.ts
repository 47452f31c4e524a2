import type { Clock } from '../../base/clock.ts'
import type { Statements } from '../../database/postgres.ts'
import type { JobDetails } from '../contract/remote-jobs.ts'
import type { Store } from '../contract/store.ts'
import { activate } from './activate.ts'
import { Batch } from './batch.ts'
import { BatchedPushes } from './batched-push.ts'
import { cancelFlow } from './cancel-flow.ts'
import { clear } from './clear.ts'
import type { Context } from './context.ts'
import { details, findDetails, noteProgress, remove } from './job-details.ts'
import { overdueRuns } from './overdue.ts'
import { boundQueue, endedRuns, limitQueue, pauseQueue, queueCounts } from './queues.ts'
import { registerWorker } from './register-worker.ts'
import { settings } from '../shared/queue-records.ts'
import { readAsync } from '../shared/reading.ts'
import { type Call, type SharedVerb, SharedVerbs } from '../shared/verbs.ts'
import { accessOf } from './shared-sql.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'
import { startFlow } from './start-flow.ts'
import type { Bell } from './watch.ts'

/** The parts of the store that a group of its verbs needs. */
export interface StoreAccess {
  readonly context: Context
  readonly clock: Clock
  readonly bell: Bell
}

/** The verbs of flows, and those for work over a protocol. */
export abstract class RemoteVerbs extends SharedVerbs {
  protected abstract get access(): StoreAccess
  #pushes: BatchedPushes | null = null
  /** One query reads all jobs requested while others are in flight. */
  readonly #details = new Batch<string, JobDetails | null>((ids) => this.#read((db) => details(db, ids)))

  protected get remotePending(): boolean {
    return this.#details.pending || this.#pushes?.pending === true
  }

  startFlow: Store['startFlow'] = async (flow) => {
    const { context, bell } = this.access
    await this.#read((db, again) => startFlow(context, db, flow, again))
    bell.ring('work')
  }

  cancelFlow: Store['cancelFlow'] = async (id) => {
    const { context, bell } = this.access
    const answer = await context.db.transaction((db) => cancelFlow(context, db, id))
    if (answer.kind !== 'cancelled') return answer
    if (answer.requested.length > 0) bell.ring('cancelled')
    bell.ring('ended')
    bell.ring('work')
    return answer
  }

  push: Store['push'] = async (jobs, limits) => {
    const { context, clock, bell } = this.access
    this.#pushes ??= new BatchedPushes(context, clock)
    const answer = await this.#pushes.add({ jobs, limits })
    if (answer.kind === 'stored') bell.ring('work')
    return answer
  }

  details: Store['details'] = async (id) => (await this.#details.add([id]))[0] ?? null
  findDetails: Store['findDetails'] = (query) => this.#read((db) => findDetails(db, query))
  activate: Store['activate'] = (id, runAtMs) => this.#change((db) => activate(this.access.context, db, id, runAtMs))
  remove: Store['remove'] = (id) => this.#read((db) => remove(db, id))
  noteProgress: Store['noteProgress'] = (id, progress) => this.#read((db) => noteProgress(db, id, progress))
  overdueRuns: Store['overdueRuns'] = (limit) => this.#read((db) => overdueRuns(db, limit))

  registerWorker: Store['registerWorker'] = async (worker) => {
    const { context, bell } = this.access
    const { registration, woke } = await this.#within((db) => registerWorker(context, db, worker))
    if (woke) bell.ring('work')
    return registration
  }

  pauseQueue: Store['pauseQueue'] = (queue, paused) =>
    this.#change((db) => pauseQueue(this.access.context, db, queue, paused))
  limitQueue: Store['limitQueue'] = (queue, limit) => this.#change((db) => limitQueue(db, queue, limit))
  boundQueue: Store['boundQueue'] = (queue, bounds) => this.#change((db) => boundQueue(db, queue, bounds))
  queueCounts: Store['queueCounts'] = (queue) => this.#read((db) => queueCounts(db, queue))
  endedRuns: Store['endedRuns'] = (sinceUs, queuePrefix = '') =>
    this.#read((db) => endedRuns(this.access.context, db, sinceUs, queuePrefix))
  /** Without retries: callers also use it to check whether the server answers. */
  override settings: Store['settings'] = (prefix) =>
    this.access.context.db.session((db) => readAsync(settings(accessOf(this.access.context, db), prefix)))
  clear: Store['clear'] = () => this.#change((db) => clear(this.access.context, db))

  protected reads<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer> {
    return (...input) => this.#read((db) => readAsync(verb(accessOf(this.access.context, db), ...input)))
  }

  protected keeps<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer> {
    return this.reads(verb)
  }

  protected changes<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer> {
    return (...input) => this.#change((db) => readAsync(verb(accessOf(this.access.context, db), ...input)))
  }

  /** Runs work that may run twice: at worst the answer says that it was already done. */
  #read<T>(work: (db: Statements, again: boolean) => Promise<T>): Promise<T> {
    const { context, clock } = this.access
    return whenReachable(clock, (again) => context.db.session((db) => work(db, again)), READ_GIVE_UP_MS)
  }

  #within<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    const { context, clock } = this.access
    return whenReachable(clock, () => context.db.transaction(work), READ_GIVE_UP_MS)
  }

  /** Runs a transaction that may let jobs start. */
  async #change<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    const result = await this.#within(work)
    this.access.bell.ring('work')
    return result
  }
}
