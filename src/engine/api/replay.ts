import { type Duration, durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkOptions, show } from '../../base/options.ts'
import { messageOf } from '../../base/thrown.ts'
import type { JobRecord } from '../../jobs/job.ts'
import { type JobFilter, jobMatch } from '../../jobs/job-filter.ts'
import { type CheckedArrival, type Replay, replayed } from '../../policy/forecast/replay.ts'
import { checkUnits } from '../../policy/limits/define.ts'
import { normalisePolicy } from '../../policy/limits/normalise.ts'
import { isPath, partitionKey, readPath } from '../../policy/limits/partition-key.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import { enforced } from '../../policy/limits/shadow.ts'
import type { Store } from '../../store/contract/store.ts'
import { searchJobs } from './find-jobs.ts'
import { placeOf } from './job-page.ts'

/** The jobs of a replay, and how each would use the policy. */
export interface ReplayOptions extends Pick<JobFilter, 'until' | 'queue' | 'task' | 'tags' | 'schedule'> {
  /** Jobs enqueued from then on: a date, a text in ISO 8601 with its zone, or so long ago (`'24h'`). */
  readonly since: Date | string
  /** Splits the budget: a path of the input, or a function of it. Default: one budget for all. */
  readonly by?: string | ((input: never) => string | number | null | undefined)
  /** Units that a start costs: a number, a path of the input, or a function of it; default 1. */
  readonly weight?: number | string | ((input: never) => number)
  /** How long a job runs that has not ended, for a policy with `concurrency`. Default: the mean of those that have. */
  readonly runTime?: Duration
}

/** The jobs of a store, replayed. */
export interface StoreReplay extends Replay {
  /** The store has more jobs since then. The newest million were replayed. */
  readonly truncated: boolean
}

const FILTER = ['since', 'until', 'queue', 'task', 'tags', 'schedule'] as const
const OPTIONS = [...FILTER, 'by', 'weight', 'runTime']
const PAGE = 1000
/** Each takes about 100 bytes. */
const MOST_JOBS = 1_000_000

/**
 * Replays the arrivals of the jobs that a store keeps through a policy. A job arrives when it is enqueued; its delay
 * and its retries do not count.
 *
 * @throws {SluiceError} `policy.invalid`, `option.invalid`, `duration.invalid`, `limit.key.invalid`, `limit.key.threw`,
 * `limit.weight.invalid`, `limit.weight.threw`
 */
export async function replayJobs(
  store: Store,
  policy: Policy | string,
  options: ReplayOptions,
  atMost: number = MOST_JOBS,
): Promise<StoreReplay> {
  checkOptions(options, OPTIONS, 'limits.replay', {
    aliases: { key: 'by', from: 'since', after: 'since', before: 'until' },
  })
  const rules = enforced(normalisePolicy(policy, 'limits.replay'))
  const { by, weight, runTime, ...filter } = options
  if (filter.since === undefined)
    throw new SluiceError(
      'option.invalid',
      "limits.replay: since is missing. Expected a date, or a time ago such as '24h'.",
    )
  const match = jobMatch(filter, 'limits.replay')
  const runUs = runTime === undefined ? null : durationUs(runTime, 'limits.replay: runTime')
  const arrivalOf = readerOf(rules.onMissingKey, by, weight)
  const arrivals: CheckedArrival[] = []
  let truncated = false
  for (let before: number | undefined; !truncated;) {
    const jobs = match ? (await searchJobs(store, match, PAGE, before)).found : []
    for (const job of jobs) {
      if (arrivals.length >= atMost) truncated = true
      else arrivals.push(...arrivalOf(job))
    }
    const last = jobs.at(-1)
    if (!last || jobs.length < PAGE) break
    before = placeOf(last, filter)
  }
  // A page has the newest first. Of two that came at one instant the older goes first.
  return { ...replayed(rules, arrivals.toReversed(), runUs), truncated }
}

function readerOf(
  onMissingKey: Parameters<typeof partitionKey>[1],
  by: ReplayOptions['by'],
  weight: ReplayOptions['weight'],
): (job: JobRecord) => CheckedArrival[] {
  const isSource = (value: unknown): boolean => value === undefined || typeof value === 'function' || isPath(value)
  if (!isSource(by)) throw invalid('by', by, "a path such as 'tenantId', or a function of the input")
  if (typeof weight === 'number') checkUnits(weight, 'limits.replay')
  else if (!isSource(weight)) throw invalid('weight', weight, 'a number, a path, or a function of the input')
  return ({ id, input, createdUs, startedUs, finishedUs }) => {
    const what = `limits.replay: job ${id}`
    const reads = typeof by !== 'undefined' || typeof weight === 'string' || typeof weight === 'function'
    const value = reads ? (JSON.parse(input) as unknown) : undefined
    const key = by === undefined ? undefined : read(by, value, what, 'limit.key.threw')
    const found = partitionKey(key, onMissingKey ?? 'shared', what)
    if (found.kind === 'missing') return []
    const units =
      typeof weight === 'number' || weight === undefined
        ? (weight ?? 1)
        : read(weight, value, what, 'limit.weight.threw')
    const runUs = startedUs !== null && finishedUs !== null ? Math.max(0, finishedUs - startedUs) : null
    return [{ atUs: createdUs, key: found.key, weight: checkUnits(units ?? 1, what), runUs }]
  }
}

function read(
  source: string | ((input: never) => unknown),
  input: unknown,
  what: string,
  code: 'limit.key.threw' | 'limit.weight.threw',
): unknown {
  if (typeof source === 'string') return readPath(input, source)
  try {
    return source(input as never)
  } catch (cause) {
    throw new SluiceError(code, `${what}: its function threw: ${messageOf(cause)}.`, { cause })
  }
}

function invalid(name: string, value: unknown, expected: string): SluiceError {
  return new SluiceError('option.invalid', `limits.replay: ${name} is invalid: ${show(value)}. Expected ${expected}.`)
}
