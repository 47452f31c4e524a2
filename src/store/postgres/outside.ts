import type { Clock } from '../../base/clock.ts'
import type { Statements } from '../../database/postgres.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { NewJob } from '../../jobs/job.ts'
import type {
  Directive,
  Enlisted,
  FactsQuery,
  Found,
  JobFacts,
  Named,
  NamesFound,
  Offered,
  Outside,
  OutsideWorker,
  QueueBounds,
  QueueCount,
  QueueRecord,
  WorkerRecord,
} from '../contract/outside.ts'
import type { LimitDefinition } from '../contract/store.ts'
import { activate } from './activate.ts'
import { Batch } from './batch.ts'
import { clear } from './clear.ts'
import type { Context } from './context.ts'
import { direct, dismiss, enlist, workers } from './register-worker.ts'
import { facts, find, note, remove } from './job-details.ts'
import { names } from './names.ts'
import { Offers } from './batched-push.ts'
import { overdue } from './overdue.ts'
import type { AuditEntry, AuditQuery, AuditRow } from '../contract/audit.ts'
import { audit, audited } from './audit.ts'
import { bound, counts, ended, keep, kept, limit, pause, queues } from './queues.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'
import type { Bell } from './watch.ts'

/** The part of the PostgreSQL store that serves work over a protocol. */
export class PostgresOutside implements Outside {
  readonly #context: Context
  readonly #clock: Clock
  readonly #bell: Bell
  readonly #offers: Offers
  /** Jobs asked for while others are on their way are read together. */
  readonly #reading: Batch<string, JobFacts | null>

  constructor(context: Context, clock: Clock, bell: Bell) {
    this.#context = context
    this.#clock = clock
    this.#bell = bell
    this.#offers = new Offers(context, clock)
    this.#reading = new Batch((ids) => this.#read((db) => facts(db, ids)))
  }

  get pending(): boolean {
    return this.#reading.pending || this.#offers.pending
  }

  async offer(jobs: readonly NewJob[], limits: readonly LimitDefinition[]): Promise<Offered> {
    const offered = await this.#offers.add({ jobs, limits })
    if (offered.kind === 'stored') this.#bell.ring('work')
    return offered
  }

  async get(id: string): Promise<JobFacts | null> {
    return (await this.#reading.add([id]))[0] ?? null
  }

  find(query: FactsQuery): Promise<Found> {
    return this.#read((db) => find(db, query))
  }

  activate(id: string, runAtMs: number | null): Promise<JobState | null> {
    return this.#change((db) => activate(this.#context, db, id, runAtMs))
  }

  remove(id: string): Promise<boolean> {
    return this.#read((db) => remove(db, id))
  }

  note(id: string, progress: string): Promise<boolean> {
    return this.#read((db) => note(db, id, progress))
  }

  overdue(limit: number): Promise<{ runs: JobFacts[]; nextUs: number | null }> {
    return this.#read((db) => overdue(db, limit))
  }

  async enlist(worker: OutsideWorker): Promise<Enlisted> {
    const { enlisted, woke } = await whenReachable(
      this.#clock,
      () => this.#context.db.transaction((db) => enlist(this.#context, db, worker)),
      READ_GIVE_UP_MS,
    )
    if (woke) this.#bell.ring('work')
    return enlisted
  }

  workers(): Promise<WorkerRecord[]> {
    return this.#read((db) => workers(this.#context, db))
  }

  direct(name: string, directive: Directive): Promise<boolean> {
    return this.#read((db) => direct(db, name, directive))
  }

  dismiss(name: string): Promise<boolean> {
    return this.#change((db) => dismiss(this.#context, db, name))
  }

  queues(): Promise<QueueRecord[]> {
    return this.#read((db) => queues(this.#context, db))
  }

  names(kind: Named, folder: string, some: readonly string[], atMost: number): Promise<NamesFound> {
    return this.#read((db) => names(this.#context, db, kind, folder, some, atMost))
  }

  pause(queue: string, paused: boolean): Promise<void> {
    return this.#change((db) => pause(this.#context, db, queue, paused))
  }

  limit(queue: string, name: string | null): Promise<void> {
    return this.#change((db) => limit(db, queue, name))
  }

  bound(queue: string, bounds: QueueBounds | null): Promise<void> {
    return this.#change((db) => bound(db, queue, bounds))
  }

  counts(queue?: string): Promise<QueueCount[]> {
    return this.#read((db) => counts(db, queue))
  }

  ended(sinceUs: number, queuePrefix = ''): Promise<{ completed: number; discarded: number }> {
    return this.#read((db) => ended(this.#context, db, sinceUs, queuePrefix))
  }

  keep(name: string, value: string | null): Promise<void> {
    return this.#read((db) => keep(db, name, value))
  }

  audit(entry: AuditEntry): Promise<void> {
    return this.#change((db) => audit(db, entry))
  }

  audited(query: AuditQuery): Promise<AuditRow[]> {
    return this.#read((db) => audited(db, query))
  }

  clear(): Promise<void> {
    return this.#change((db) => clear(this.#context, db))
  }

  /** Asked once: whether the server answers is asked so, too. */
  kept(prefix: string): Promise<{ name: string; value: string }[]> {
    return this.#context.db.session((db) => kept(db, prefix))
  }

  /** What may be asked again, or done again: at worst the answer says that it was done already. A connection that died unnoticed is found by its first use. */
  #read<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    return whenReachable(this.#clock, () => this.#context.db.session(work), READ_GIVE_UP_MS)
  }

  /** The same in a transaction after which there may be something to claim. */
  async #change<T>(work: (db: Statements) => Promise<T>): Promise<T> {
    const result = await whenReachable(this.#clock, () => this.#context.db.transaction(work), READ_GIVE_UP_MS)
    this.#bell.ring('work')
    return result
  }
}
