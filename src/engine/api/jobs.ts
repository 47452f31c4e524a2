import type { Clock } from '../../base/clock.ts'
import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkInstant } from '../../base/instant.ts'
import { brief, checkOptions, checkText, show } from '../../base/options.ts'
import { checkPriority } from '../../base/priority.ts'
import { type JobFilter, jobMatch } from '../../jobs/job-filter.ts'
import type { JobRecord } from '../../jobs/job.ts'
import { isFinal } from '../../jobs/job-state.ts'
import type { JobChange } from '../../store/contract/change-jobs.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Events } from '../events/events.ts'
import { reportFlow } from '../events/flow-news.ts'
import type { Wakeup } from '../events/wakeup.ts'
import type { Results } from '../run/results.ts'
import { BULK_OPTIONS, type BulkHooks, bulkMatch, type BulkOptions, type BulkResult, changeMany } from './bulk.ts'
import { countMatches, Reach, type Searched, searchJobs } from './find-jobs.ts'
import {
  type CheckedPage,
  cursorAfter,
  type JobListQuery,
  type JobPage,
  type JobPageQuery,
  jobPage,
  placeOf,
} from './job-page.ts'
import { type JobExplanation, wordsFor } from './job-explanation.ts'
import { dateOf, detailedViewOf, type JobView, type JobWithFailures, viewOf } from './job-view.ts'
import { viewOfOverride } from './override-view.ts'
import { knownQueue } from './queues.ts'

interface Hooks {
  readonly clock: Clock
  readonly store: () => Promise<Store>
  /** Aborts a run of this process, or gives it back if it has not begun. */
  readonly cancelRun: (job: string) => Promise<void>
  readonly events: Events
  readonly results: Results
  readonly wakeup: Wakeup
}

/** Stored jobs: read, cancel, retry, explain. */
export class JobsApi {
  readonly #hooks: Hooks

  constructor(hooks: Hooks) {
    this.#hooks = hooks
  }

  /** One job with its failed attempts, its progress and its log; null: it does not exist, or its retention is over. */
  async get(id: string): Promise<JobWithFailures | null> {
    checkText(id, 'jobs.get: the id')
    const store = await this.#hooks.store()
    const job = await store.details(id)
    return job && detailedViewOf(job, await store.jobLog(id))
  }

  /**
   * The newest jobs that match a filter; those of one flow in its order.
   * @throws {SluiceError} `option.invalid` for an unknown option or a value out of range
   */
  async list(query: JobListQuery = {}): Promise<JobView[]> {
    const page = jobPage(query, 'jobs.list')
    return (await this.#find(page, page.limit)).found.map(viewOf)
  }

  /**
   * One page of the same list, and the cursor of the next page; null: there is none. A job is on one page at most, even
   * if jobs are added and deleted meanwhile. Without an index one call looks at 200,000 jobs, or for 500 ms: then the
   * page may have fewer jobs than there are, `looked` says so, and the cursor continues.
   * @param query.cursor the cursor of an earlier page with the same filter
   * @throws {SluiceError} `option.invalid`, also for a cursor that no such page returned
   */
  async page(query: JobPageQuery = {}): Promise<JobPage> {
    const page = jobPage(query, 'jobs.page')
    const { limit: _, cursor: __, ...filter } = query
    const { found, from, rows } = await this.#find(page, page.limit + 1, new Reach(this.#hooks.clock))
    const jobs = found.slice(0, page.limit)
    const last = jobs.at(-1)
    const next = last && found.length > page.limit ? placeOf(last, filter) : from
    return {
      jobs: jobs.map(viewOf),
      cursor: next === null ? null : cursorAfter(next, filter),
      looked: { jobs: rows, complete: from === null },
    }
  }

  /**
   * Iterates over all jobs that match a filter, page by page, in the same order.
   * @throws {SluiceError} `option.invalid`, at the call
   */
  iterate(filter: JobFilter = {}): AsyncIterableIterator<JobView> {
    jobPage(filter, 'jobs.iterate')
    return this.#iterate(filter)
  }

  /**
   * The number of jobs that match a filter. It reads all jobs, in parts between which other work goes on, so a job that
   * changes meanwhile counts as it is when the count meets it.
   * @throws {SluiceError} `option.invalid`, `duration.invalid`
   */
  async count(filter: JobFilter = {}): Promise<number> {
    const match = jobMatch(filter, 'jobs.count')
    return match ? (await countMatches(await this.#hooks.store(), match)).found : 0
  }

  async #find({ match, place }: CheckedPage, limit: number, reach?: Reach): Promise<Searched<readonly JobRecord[]>> {
    const store = await this.#hooks.store()
    if (!match) return { found: [], rows: 0, from: null }
    return searchJobs(store, match, limit, place ?? undefined, reach)
  }

  async *#iterate(filter: JobFilter): AsyncIterableIterator<JobView> {
    for (let cursor: string | null = null; ;) {
      const page: Awaited<ReturnType<JobsApi['page']>> = await this.page({ ...filter, cursor })
      yield* page.jobs
      cursor = page.cursor
      if (cursor === null) return
    }
  }

  /**
   * Cancels a job. A waiting one ends at once, and the jobs behind it move up; it was not charged. A running one has
   * its signal aborted. Returns false if it had already ended.
   * @throws {SluiceError} `job.not_found`
   */
  async cancel(id: string): Promise<boolean> {
    checkText(id, 'jobs.cancel: the id')
    const store = await this.#hooks.store()
    const answer = await store.cancel(id)
    if (answer.kind === 'missing') throw missing(id)
    if (answer.kind === 'finished') return false
    const job = answer.kind === 'cancelled' ? await store.get(id) : null
    const { cancelRun, events, results, wakeup } = this.#hooks
    await cancelRun(id)
    wakeup.notify('work')
    if (job) events.emit('job.cancelled', { id, task: job.task, queue: job.queue, attempt: 0 })
    results.settled(id)
    if (answer.kind === 'cancelled' && answer.flow) reportFlow(answer.flow, events, (ended) => results.settled(ended))
    return true
  }

  /**
   * Runs a discarded job again, with new attempts, and lets its flow continue. False: it is not discarded.
   * @throws {SluiceError} `job.not_found`
   */
  async retry(id: string): Promise<boolean> {
    checkText(id, 'jobs.retry: the id')
    const store = await this.#hooks.store()
    if (!(await store.get(id))) throw missing(id)
    const retried = await store.retry(id)
    if (retried) this.#hooks.wakeup.notify('work')
    return retried
  }

  /**
   * Makes a job that waits for its time available now: a scheduled one, or one that waits for its next attempt. Its
   * budgets hold. False: it does not wait for a time.
   * @throws {SluiceError} `job.not_found`
   */
  promote(id: string): Promise<boolean> {
    return this.#retime(checkText(id, 'jobs.promote: the id'), null)
  }

  /**
   * Schedules a job that has not started for another time, by the wall clock. A time that has passed makes it available
   * now. False: it does not wait for a time or for its turn.
   * @throws {SluiceError} `job.not_found`; `option.invalid` for an invalid date, or one in 2200 or later
   */
  async reschedule(id: string, at: Date): Promise<boolean> {
    const what = 'jobs.reschedule'
    checkText(id, `${what}: the id`)
    if (!(at instanceof Date))
      throw new SluiceError('option.invalid', `${what}: the time is invalid: ${show(at)}. Expected a Date.`)
    return this.#retime(id, checkInstant(at.getTime(), `${what}: the time`))
  }

  /**
   * Gives a job that has not started another priority. Its age and its budgets stay. False: it has started or ended, or
   * belongs to a flow.
   * @param priority −100 to 100, higher first
   * @throws {SluiceError} `job.not_found`, `priority.invalid`
   */
  async reprioritize(id: string, priority: number): Promise<boolean> {
    const what = 'jobs.reprioritize'
    checkText(id, `${what}: the id`)
    const change = { kind: 'place', queue: null, priority: checkPriority(priority, what) } as const
    const store = await this.#hooks.store()
    const job = await store.get(id)
    if (!job) throw missing(id)
    const { changed } = await store.changeJobs(change, { ids: [id] }, {}, 1)
    if (changed.length > 0) this.#hooks.wakeup.notify('work')
    // One that has the priority already is not changed.
    const waits = !job.flow && job.state !== 'active' && !isFinal(job.state)
    return changed.length > 0 || (waits && job.priority === change.priority)
  }

  async #retime(id: string, runAtMs: number | null): Promise<boolean> {
    const store = await this.#hooks.store()
    const { kind } = await store.retime(id, runAtMs)
    if (kind === 'missing') throw missing(id)
    if (kind === 'retimed') this.#hooks.wakeup.notify('work')
    return kind === 'retimed'
  }

  /**
   * Deletes a job that has ended. False: it has not ended, or its flow still runs and may need its result.
   * @throws {SluiceError} `job.not_found`
   */
  async delete(id: string): Promise<boolean> {
    checkText(id, 'jobs.delete: the id')
    const store = await this.#hooks.store()
    if (!(await store.get(id))) throw missing(id)
    return store.remove(id)
  }

  /**
   * Cancels all jobs that match and have not ended, newest first, in transactions of at most 1,000 jobs. Jobs that
   * arrive meanwhile are not touched. Repeated after a failure, it cancels what is left, and nothing else.
   * @throws {SluiceError} `option.invalid`, also for an empty filter; `duration.invalid`
   */
  cancelMany(filter: JobFilter, options: BulkOptions = {}): Promise<BulkResult> {
    return this.#change({ kind: 'cancel' }, filter, options, 'jobs.cancelMany')
  }

  /** Runs all discarded jobs that match again, with new attempts, as `cancelMany` cancels. */
  retryMany(filter: JobFilter, options: BulkOptions = {}): Promise<BulkResult> {
    return this.#change({ kind: 'retry' }, filter, options, 'jobs.retryMany')
  }

  /** Deletes all ended jobs that match, as `cancelMany` cancels; not those of a flow that still runs. */
  deleteMany(filter: JobFilter, options: BulkOptions = {}): Promise<BulkResult> {
    return this.#change({ kind: 'delete' }, filter, options, 'jobs.deleteMany')
  }

  /**
   * Moves all jobs that match and have not started to another queue, as `cancelMany` cancels; not jobs of flows. They
   * keep their age, their budgets and their fair key.
   * @param options.to the name of the queue
   */
  async moveMany(filter: JobFilter, options: BulkOptions & { readonly to: string }): Promise<BulkResult> {
    checkOptions(options, ['to', ...BULK_OPTIONS], 'jobs.moveMany: the options')
    const { to, ...rest } = options
    const queue = await knownQueue(await this.#hooks.store(), to)
    return this.#change({ kind: 'place', queue, priority: null }, filter, rest, 'jobs.moveMany')
  }

  /**
   * Gives all jobs that match and have not started another priority, as `moveMany` moves them.
   * @param options.priority −100 to 100, higher first
   * @throws {SluiceError} as `cancelMany`; `priority.invalid`
   */
  async reprioritizeMany(filter: JobFilter, options: BulkOptions & { readonly priority: number }): Promise<BulkResult> {
    const what = 'jobs.reprioritizeMany'
    checkOptions(options, ['priority', ...BULK_OPTIONS], `${what}: the options`)
    const { priority, ...rest } = options
    return this.#change({ kind: 'place', queue: null, priority: checkPriority(priority, what) }, filter, rest, what)
  }

  async #change(change: JobChange, filter: JobFilter, options: BulkOptions, what: string): Promise<BulkResult> {
    const match = bulkMatch(filter, options, what)
    const store = await this.#hooks.store()
    return changeMany({ store, ...this.changing(change) }, change, match, options)
  }

  /** Reports jobs that were changed together, and changes single ones. */
  changing({ kind }: JobChange): Omit<BulkHooks, 'store'> {
    const { cancelRun, events, results, wakeup } = this.#hooks
    return {
      single: (id, how) => this[how](id),
      async changed(jobs) {
        for (const { id, task, queue, was } of kind === 'cancel' ? jobs : []) {
          if (was === 'active') await cancelRun(id)
          else events.emit('job.cancelled', { id, task, queue, attempt: 0 })
          results.settled(id)
        }
        if (kind !== 'delete' && jobs.length > 0) wakeup.notify('work')
      },
    }
  }

  /**
   * Waits until a job of the store has ended, in any process and of any task. The result is the value of `run` after JSON.
   * @param options.timeout how long to wait; default: until the job ends or this engine stops
   * @throws {SluiceError} `job.not_found`, `job.discarded`, `job.cancelled`; `job.result.timeout`, while the job
   * continues; `engine.stopped`
   */
  async result(id: string, options: { timeout?: Duration } = {}): Promise<unknown> {
    checkText(id, 'jobs.result: the id')
    return this.#hooks.results.wait(id, options)
  }

  /** Explains why a job waits, until when, and at which position. @throws {SluiceError} `job.not_found` */
  async explain(id: string): Promise<JobExplanation> {
    checkText(id, 'jobs.explain: the id')
    const store = await this.#hooks.store()
    const explanation = await store.explain(id)
    if (!explanation) throw missing(id)
    const date = (us: number | null): Date | null => (us === null ? null : dateOf(us))
    const { position, linePosition, uses, waitsOn, served, known, job } = explanation
    const found = {
      job: viewOf(job),
      ...(explanation.unresolved && { unresolved: true as const }),
      limits: uses.map(({ limit, key, weight }) => ({ limit, key: key === '' ? null : key, weight })),
      fairKey: explanation.fairKey,
      share: explanation.share,
      headroom: explanation.headroom,
      ...(explanation.guard && { guardUs: explanation.guard.us }),
      ...(explanation.guarantee && {
        guarantee: { ...bucketOf(explanation.guarantee), from: date(explanation.guarantee.fromUs) },
      }),
      waitsOn: waitsOn && { ...waitsOn, key: waitsOn.key === '' ? null : waitsOn.key },
      ...(explanation.eachWorker && {
        eachWorker: explanation.eachWorker.map((each) => ({
          worker: each.worker,
          waitsOn: each.waitsOn && bucketOf(each.waitsOn),
          until: date(each.untilUs),
        })),
      }),
      since: date(explanation.sinceUs),
      until: date(explanation.untilUs),
      expectedStart: date(explanation.expectedStartUs),
      givenUpAt: date(explanation.givenUpAtUs),
      overrides: explanation.overrides.map(viewOfOverride),
      position,
      linePosition,
      exact: explanation.exact,
      ...(explanation.paused && { paused: true as const }),
      served,
      known,
    }
    return { ...found, words: wordsFor(found) }
  }
}

function bucketOf(found: { limit: string; key: string }): { limit: string; key: string | null } {
  return { limit: found.limit, key: found.key === '' ? null : found.key }
}

function missing(id: string): SluiceError {
  return new SluiceError('job.not_found', `The job ${brief(id)} does not exist. Its retention may be over.`)
}
