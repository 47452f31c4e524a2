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
import type { AuditEntry, AuditQuery, AuditRow } from '../contract/audit.ts'
import type { LimitDefinition } from '../contract/store.ts'
import { audit, audited } from './audit.ts'
import { activate } from './activate.ts'
import { clear } from './clear.ts'
import type { Context } from './context.ts'
import { counts } from './counts.ts'
import { direct, dismiss, enlist, workers } from './register-worker.ts'
import { facts, find, note, remove } from './job-details.ts'
import { names } from './names.ts'
import { offer, RefusedOffer } from './push.ts'
import { overdue } from './overdue.ts'
import { bound, ended, keep, kept, limit, pause, queues } from './queues.ts'

const CHANGES = 1

/** The part of the SQLite store that serves work over a protocol. */
export class SqliteOutside implements Outside {
  readonly #context: Context

  constructor(context: Context) {
    this.#context = context
  }

  async offer(jobs: readonly NewJob[], limits: readonly LimitDefinition[]): Promise<Offered> {
    try {
      return await this.#write(() => offer(this.#context, jobs, limits))
    } catch (error) {
      // Thrown so that the transaction is rolled back; to the caller it is an answer.
      if (error instanceof RefusedOffer) return { kind: 'refused', at: error.at, why: error.why }
      throw error
    }
  }

  async get(id: string): Promise<JobFacts | null> {
    return facts(this.#context, id)
  }

  async find(query: FactsQuery): Promise<Found> {
    return find(this.#context, query)
  }

  activate(id: string, runAtMs: number | null): Promise<JobState | null> {
    return this.#write(() => activate(this.#context, id, runAtMs))
  }

  remove(id: string): Promise<boolean> {
    return this.#write(() => remove(this.#context, id))
  }

  note(id: string, progress: string): Promise<boolean> {
    return this.#write(() => note(this.#context, id, progress))
  }

  async overdue(limit: number): Promise<{ runs: JobFacts[]; nextUs: number | null }> {
    return overdue(this.#context, limit)
  }

  enlist(worker: OutsideWorker): Promise<Enlisted> {
    return this.#write(() => enlist(this.#context, worker))
  }

  async workers(): Promise<WorkerRecord[]> {
    return workers(this.#context)
  }

  direct(name: string, directive: Directive): Promise<boolean> {
    return this.#write(() => direct(this.#context, name, directive))
  }

  dismiss(name: string): Promise<boolean> {
    return this.#write(() => dismiss(this.#context, name))
  }

  async queues(): Promise<QueueRecord[]> {
    return queues(this.#context)
  }

  async names(kind: Named, folder: string, some: readonly string[], atMost: number): Promise<NamesFound> {
    return names(this.#context, kind, folder, some, atMost)
  }

  pause(queue: string, paused: boolean): Promise<void> {
    return this.#write(() => pause(this.#context, queue, paused))
  }

  limit(queue: string, name: string | null): Promise<void> {
    return this.#write(() => limit(this.#context, queue, name))
  }

  bound(queue: string, bounds: QueueBounds | null): Promise<void> {
    return this.#write(() => bound(this.#context, queue, bounds))
  }

  async counts(queue?: string): Promise<QueueCount[]> {
    return counts(this.#context, queue)
  }

  async ended(sinceUs: number, queuePrefix = ''): Promise<{ completed: number; discarded: number }> {
    return ended(this.#context, sinceUs, queuePrefix)
  }

  keep(name: string, value: string | null): Promise<void> {
    return this.#write(() => keep(this.#context, name, value))
  }

  audit(entry: AuditEntry): Promise<void> {
    return this.#write(() => audit(this.#context, entry))
  }

  async audited(query: AuditQuery): Promise<AuditRow[]> {
    return audited(this.#context, query)
  }

  clear(): Promise<void> {
    return this.#write(() => clear(this.#context))
  }

  async kept(prefix: string): Promise<{ name: string; value: string }[]> {
    return kept(this.#context, prefix)
  }

  #write<T>(work: () => T): Promise<T> {
    return this.#context.db.write(CHANGES, work)
  }
}
