import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { fromJsonText } from '../../base/json-value.ts'
import { extraOf } from '../../jobs/job-extra.ts'
import { checkText } from '../../base/options.ts'
import { isStorable } from '../../base/text.ts'
import type { FlowPlace } from '../../jobs/flow.ts'
import type { JobQuery, JobRecord } from '../../jobs/job.ts'
import type { JobError } from '../../jobs/job-error.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Events } from '../events/events.ts'
import { reportFlow } from '../events/flow-news.ts'
import type { Wakeup } from '../events/wakeup.ts'
import type { Results } from '../run/results.ts'
import { cursorAfter, type JobFilter, type JobListQuery, type JobPageQuery, jobQuery } from './job-page.ts'
import { type OverrideView, viewOfOverride } from './override-view.ts'

/** The public view of a stored job. */
export interface JobView {
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly state: JobState
  readonly priority: number
  readonly input: unknown
  readonly result: unknown
  readonly error: JobError | null
  /** The number of runs that have started. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly createdAt: Date
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  readonly meta: Readonly<Record<string, unknown>>
  readonly tags: readonly string[]
  /**
   * The next possible start of the lane of a job that waits for budget. Null: the job is not throttled, or a permit
   * must return first.
   */
  readonly throttledUntil: Date | null
  /** The schedule and due time of this job; absent for any other job. */
  readonly occurrence?: { readonly schedule: string; readonly dueAt: Date }
  /** The flow of this job and its place there; absent for any other job. */
  readonly flow?: FlowPlace
}

/** The reason why a job waits, as data and in words. */
export interface JobExplanation {
  readonly job: JobView
  /** The job was stored without its task's code. It waits until an engine that lists the task resolves its limits. */
  readonly unresolved?: true
  /** Every bucket that must admit it. */
  readonly limits: readonly { readonly limit: string; readonly key: string | null; readonly weight: number }[]
  /** The key by which its jobs take turns with those of others; null: none. */
  readonly fairKey: string | null
  /** The number of starts in one turn of its lane. */
  readonly share: number
  /** The bucket that it waits for; null: none. */
  readonly waitsOn: { readonly limit: string; readonly key: string | null } | null
  /** The units that this bucket keeps for more urgent jobs; null: none. */
  readonly headroom: { readonly units: number; readonly priority: number } | null
  /** The guard of the budget that it waits for, in µs; absent: none. */
  readonly guardUs?: number
  /** For a job with a limit of scope `worker`: the wait of each live worker, and its end. */
  readonly eachWorker?: readonly {
    readonly worker: number
    readonly waitsOn: { readonly limit: string; readonly key: string | null } | null
    readonly until: Date | null
  }[]
  /** 1 for the next of its lane; null: it does not wait. */
  readonly position: number | null
  /**
   * 1 for the next of all jobs, of any queue, that wait for the job's only budget. Null: it needs several budgets, or
   * none.
   */
  readonly linePosition: number | null
  /** The time of its last state change. */
  readonly since: Date | null
  /** The next possible start of the head of its lane. */
  readonly until: Date | null
  /**
   * The expected start if nothing changes; for a scheduled or retryable job, the time at which it becomes available.
   */
  readonly expectedStart: Date | null
  /** Active overrides and pauses of that bucket. */
  readonly overrides: readonly OverrideView[]
  /** False: `expectedStart` is the earliest possible. Other limits, permits or a missing slot may delay it. */
  readonly exact: boolean
  /** The time at which it is discarded unless it has started; null: never. */
  readonly givenUpAt: Date | null
  /** A live process serves its queue. */
  readonly served: boolean
  /** A live process that serves its queue lists its task. */
  readonly known: boolean
  readonly words: string
}

interface Hooks {
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

  /** One job; null: it does not exist, or its retention is over. */
  async get(id: string): Promise<JobView | null> {
    checkText(id, 'jobs.get: the id')
    const store = await this.#hooks.store()
    const job = await store.get(id)
    return job && viewOf(job)
  }

  /**
   * The newest jobs by state, queue and task; those of one flow in its order.
   * @throws {SluiceError} `option.invalid` for an unknown option or a value out of range
   */
  async list(query: JobListQuery = {}): Promise<JobView[]> {
    const { store } = jobQuery(query, 'jobs.list')
    return (await this.#find(store)).map(viewOf)
  }

  /**
   * One page of the same list, and the cursor of the next page; null: there is none. A job is on one page at most, even
   * if jobs are added and deleted meanwhile.
   * @param query.cursor the cursor of an earlier page with the same filter
   * @throws {SluiceError} `option.invalid`, also for a cursor that no such page returned
   */
  async page(query: JobPageQuery = {}): Promise<{ readonly jobs: JobView[]; readonly cursor: string | null }> {
    const { store, limit } = jobQuery(query, 'jobs.page')
    const found = await this.#find({ ...store, limit: limit + 1 })
    const jobs = found.slice(0, limit)
    const last = jobs.at(-1)
    return { jobs: jobs.map(viewOf), cursor: last && found.length > limit ? cursorAfter(last, query) : null }
  }

  /**
   * Iterates over all jobs that match a filter, page by page, in the same order.
   * @throws {SluiceError} `option.invalid`, at the call
   */
  iterate(filter: JobFilter = {}): AsyncIterableIterator<JobView> {
    jobQuery(filter, 'jobs.iterate')
    return this.#iterate(filter)
  }

  /** A name that no store can hold has no queue and no task. */
  async #find(query: JobQuery): Promise<JobRecord[]> {
    const store = await this.#hooks.store()
    return isStorable(query.queue ?? '') && isStorable(query.task ?? '') ? store.list(query) : []
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
      waitsOn: bucketOf(waitsOn),
      ...(explanation.eachWorker && {
        eachWorker: explanation.eachWorker.map((each) => ({
          worker: each.worker,
          waitsOn: bucketOf(each.waitsOn),
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
      served,
      known,
    }
    return { ...found, words: wordsFor(found) }
  }
}

function bucketOf(found: { limit: string; key: string } | null): { limit: string; key: string | null } | null {
  return found && { limit: found.limit, key: found.key === '' ? null : found.key }
}

function wordsFor(found: Omit<JobExplanation, 'words'>): string {
  const { job, expectedStart, givenUpAt, served, known } = found
  const at = expectedStart?.toISOString()
  if (job.state === 'scheduled' && found.waitsOn)
    return `${waitInWords(found)} It is rescheduled to its expected start.`
  if (job.state === 'scheduled') return `The job is scheduled for ${at ?? 'later'}.`
  if (job.state === 'retryable') return `The job has failed and becomes available again at ${at ?? 'a later time'}.`
  if (job.state === 'pending' && job.flow) return `The job waits for other jobs of its flow ${job.flow.id}.`
  if (job.state === 'active' && at) return `The job was granted its budget ahead, and starts at ${at}.`
  if (job.state !== 'available') return `The job is ${job.state}.`
  const turns = `${headroomInWords(found)}${guardInWords(found)}${turnsInWords(found)}`
  const unserved = served ? '' : ` No live process serves queue ${job.queue}.`
  const bound = givenUpAt ? ` It is discarded unless it starts by ${givenUpAt.toISOString()}.` : ''
  if (served && !known && !found.unresolved) return `The job waits: no live worker lists task ${job.task}.${bound}`
  return `${waitInWords(found)}${turns}${unserved}${bound}`
}

function headroomInWords({ headroom }: Pick<JobExplanation, 'headroom'>): string {
  if (!headroom) return ''
  return ` The last ${headroom.units} of that budget are kept for jobs of priority ${headroom.priority} and above.`
}

function guardInWords({ guardUs }: Pick<JobExplanation, 'guardUs'>): string {
  return guardUs === undefined ? '' : ` That budget counts with a guard of ${guardUs / 1000} ms.`
}

function turnsInWords({ fairKey, share }: Pick<JobExplanation, 'fairKey' | 'share'>): string {
  const starts = share === 1 ? '' : `, ${share} starts each time`
  if (fairKey !== null) return ` The jobs of ${fairKey} take turns with those of others${starts}.`
  return share === 1 ? '' : ` Its lane takes turns with others${starts}.`
}

function waitInWords({
  job,
  unresolved,
  waitsOn,
  position,
  linePosition,
  until,
  expectedStart,
  exact,
  overrides,
  eachWorker,
}: Omit<JobExplanation, 'words'>): string {
  if (unresolved) return `The job waits until an engine that lists the task ${job.task} resolves its limits.`
  if (!waitsOn)
    return `The job waits for a free slot of queue ${job.queue}${position === null ? '' : `, at position ${position} of its lane`}.`
  const who = waitsOn.key === null ? waitsOn.limit : `${waitsOn.limit} for ${waitsOn.key}`
  const pause = overrides.find((each) => each.kind === 'pause')
  if (pause) {
    const whom = `${pause.by === null ? '' : ` by ${pause.by}`}${pause.reason === null ? '' : ` (${pause.reason})`}`
    return `The job waits for the budget of ${who}, which is paused${whom} ${until ? `until ${until.toISOString()}` : 'until it is resumed'}, at position ${position ?? 1}.`
  }
  if (eachWorker) {
    const own = eachWorker.map(
      (each) => `${each.worker} ${each.until ? `at ${each.until.toISOString()}` : 'when a permit returns'}`,
    )
    return `The job waits for the budget of ${who}, of which each worker has its own: worker ${own.join(', worker ')}; at position ${position ?? 1} of its lane.`
  }
  const lane = until ? `whose next start is at ${until.toISOString()}` : 'until one of its permits returns'
  const start = expectedStart
    ? `; it should start ${exact ? 'at' : 'no sooner than'} ${expectedStart.toISOString()}`
    : ''
  return `The job waits for the budget of ${who}, ${lane}, at position ${linePosition ?? position ?? 1}${start}.`
}

/** The public view of a stored job. */
export function viewOf(job: JobRecord): JobView {
  const { meta = {}, tags = [] } = extraOf(job)
  return {
    id: job.id,
    task: job.task,
    queue: job.queue,
    state: job.state,
    priority: job.priority,
    input: fromJsonText(job.input, null),
    result: fromJsonText(job.result, null),
    error: job.error,
    attempt: job.attempt,
    maxAttempts: job.maxAttempts,
    createdAt: dateOf(job.createdUs),
    startedAt: job.startedUs === null ? null : dateOf(job.startedUs),
    finishedAt: job.finishedUs === null ? null : dateOf(job.finishedUs),
    meta,
    tags,
    throttledUntil: job.throttledUntilUs === null ? null : dateOf(job.throttledUntilUs),
    ...(job.occurrence && {
      occurrence: { schedule: job.occurrence.schedule, dueAt: new Date(job.occurrence.dueMs) },
    }),
    ...(job.flow && { flow: job.flow }),
  }
}

/** Store time as a date. It is close to the wall clock, unless the clock was stepped since boot. */
function dateOf(us: number): Date {
  return new Date(us / 1000)
}

function missing(id: string): SluiceError {
  return new SluiceError('job.not_found', `The job ${id} does not exist. Its retention may be over.`)
}
