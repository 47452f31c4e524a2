import { SluiceError } from '../../base/errors.ts'
import { checkOptions, ownNames, show } from '../../base/options.ts'
import { type JobFilter, type JobMatch, jobMatch } from '../../jobs/job-filter.ts'
import type { ChangedJob, JobChange } from '../../store/contract/change-jobs.ts'
import type { Store } from '../../store/contract/store.ts'
import { countMatches, spansOf } from './find-jobs.ts'

/** How a change of many jobs is made. */
export interface BulkOptions {
  /** Only counts the jobs; default false. */
  readonly dryRun?: boolean
  /** Is called after each batch. An error that it throws ends the change. */
  readonly onProgress?: (progress: BulkProgress) => void
  /** Ends the change after the batch at work. */
  readonly signal?: AbortSignal
}

/** How far a change of many jobs has come. */
export interface BulkProgress {
  /** The jobs that the change applied to when it began, and later ones that it changed too. */
  readonly matched: number
  /** The jobs changed so far. */
  readonly changed: number
}

/** The result of a change of many jobs. */
export interface BulkResult extends BulkProgress {
  /** Its signal ended it before the last batch. */
  readonly stopped: boolean
}

/** The surroundings of a change. */
export interface BulkHooks {
  readonly store: Store
  /** Cancels or retries a job of a flow, or one that another transaction held; false: its state does not allow it. */
  readonly single: (id: string, kind: 'cancel' | 'retry') => Promise<boolean>
  /** Reports the jobs of a batch. */
  readonly changed: (jobs: readonly ChangedJob[]) => Promise<void>
}

/** The names of these options. */
export const BULK_OPTIONS: readonly string[] = ['dryRun', 'onProgress', 'signal']

const BATCH = 1_000
const NO_JOB: BulkResult = { matched: 0, changed: 0, stopped: false }

/**
 * Checks the filter and the options of a change of many jobs. It needs at least one field, and refuses a field without a
 * value: a variable without a value must not select every job.
 * @throws {SluiceError} `option.invalid`
 */
export function bulkMatch(filter: JobFilter, options: BulkOptions, what: string): JobMatch | null {
  checkOptions(options, BULK_OPTIONS, `${what}: the options`)
  const { dryRun, onProgress, signal } = options
  const wrong = (name: string, value: unknown, expected: string): SluiceError =>
    new SluiceError('option.invalid', `${what}: ${name} is invalid: ${show(value)}. Expected ${expected}.`)
  if (dryRun !== undefined && typeof dryRun !== 'boolean') throw wrong('dryRun', dryRun, 'true or false')
  if (onProgress !== undefined && typeof onProgress !== 'function') throw wrong('onProgress', onProgress, 'a function')
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw wrong('signal', signal, 'an AbortSignal')
  const match = jobMatch(filter, what)
  const names = ownNames(filter) ?? []
  for (const name of names)
    if (filter[name as keyof JobFilter] === undefined)
      throw wrong(name, undefined, 'a value; leave the field out to select any')
  if (names.length > 0) return match
  throw new SluiceError(
    'option.invalid',
    `${what}: the filter is empty. Expected at least one field, as { states: ['discarded'] }.`,
  )
}

/**
 * Makes a change to all jobs that match, newest first, in batches of at most 1,000, each in a transaction of its own.
 * Jobs that arrive meanwhile are not touched, and no job is changed twice. Repeated, it changes what is left.
 */
export async function changeMany(
  hooks: BulkHooks,
  change: JobChange,
  match: JobMatch | null,
  { dryRun = false, onProgress, signal }: BulkOptions,
): Promise<BulkResult> {
  if (!match) return NO_JOB
  const { store } = hooks
  let { found: matched } = await countMatches(store, match, change)
  if (dryRun || matched === 0) return { matched, changed: 0, stopped: false }
  let changed = 0
  const stopped = (): boolean => signal?.aborted === true
  for await (const span of spansOf(store, match)) {
    for (let before = span.before; !stopped();) {
      const batch = await store.changeJobs(change, match, { ...span, ...(before !== undefined && { before }) }, BATCH)
      await hooks.changed(batch.changed)
      changed += batch.changed.length
      for (const job of batch.left) if (!stopped() && (await changeLeft(hooks, change, match, job))) changed++
      matched = Math.max(matched, changed)
      if (batch.changed.length + batch.left.length > 0) onProgress?.({ matched, changed })
      if (batch.next === null) break
      before = batch.next
    }
    if (stopped()) break
  }
  return { matched, changed, stopped: stopped() }
}

/** Changes one job that its batch left. It waits for the transaction that holds the job. */
async function changeLeft(
  { store, single, changed }: BulkHooks,
  change: JobChange,
  match: JobMatch,
  { id, inFlow }: { readonly id: string; readonly inFlow: boolean },
): Promise<boolean> {
  if (change.kind === 'cancel' || change.kind === 'retry') {
    // It may have changed since: only a job that still matches is changed.
    if (!inFlow && (await store.countJobs({ ...match, ids: [id] })) === 0) return false
    return single(id, change.kind)
  }
  const { changed: jobs } = await store.changeJobs(change, { ...match, ids: [id] }, {}, 1)
  await changed(jobs)
  return jobs.length > 0
}
